-- The textbook token bucket in Redis: every key of KEYS gives one token or none does.
-- ARGV: capacity, tokens a second.  1 = admitted.  Buckets are never expired, which a
-- real one would pay for with one command more.
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local left = {}
for i, key in ipairs(KEYS) do
	local bucket = redis.call('HMGET', key, 'tokens', 'at')
	local tokens, at = tonumber(bucket[1]) or capacity, tonumber(bucket[2]) or now
	left[i] = math.min(capacity, tokens + (now - at) * rate) - 1
	if left[i] < 0 then return 0 end
end
for i, key in ipairs(KEYS) do
	redis.call('HSET', key, 'tokens', left[i], 'at', now)
end
return 1
