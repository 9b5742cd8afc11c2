/*
 * redis_client - for Redis what pgbench is for PostgreSQL: connections of a few threads
 * ask for one decision after the other, each as soon as the answer to the last is there.
 *
 * usage: redis_client SOCKET SCRIPT BUCKET CONNECTIONS THREADS SECONDS TAKES KEYS DEPTH
 *
 * BUCKET is "open" or "closed".  A decision takes from TAKES buckets, each of another
 * kind: of one of KEYS keys at random, or of the only one.  DEPTH decisions are sent
 * together, and the next ones when all are answered.
 *
 * As in pgbench, a thread waits with poll for all of its connections, sends requests
 * that were prepared (here EVALSHA), and reads each answer by the client library
 * (hiredis, libpq).  What pgbench does in addition is to interpret a script.
 *
 * Prints: decisions, of them admitted, seconds, and percentiles 50 and 99 of a round
 * trip in microseconds.
 */
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_CONNECTIONS 256	/* of a thread */
#define MOST_TAKES 16			/* buckets of a decision */
#define SLOTS 200000			/* latencies are counted by microsecond up to here */

typedef struct Thread
{
	pthread_t	id;
	int			connections;
	unsigned int random;
	long		decisions;
	long		admitted;
	unsigned int latency[SLOTS];
} Thread;

typedef struct Connection
{
	redisContext *redis;
	double		sent;			/* when, or 0 if it is done */
	int			waiting;		/* answers that are not there yet */
} Connection;

static const char *socket_path;
static const char *bucket;
static char sha[64];
static int	takes;
static int	keys;
static int	depth;
static double start;
static double end;

/* Says what is wrong, and ends the program. */
static void
die(const char *what, const char *why)
{
	fprintf(stderr, "redis_client: %s: %s\n", what, why);
	exit(1);
}

/* Seconds of a clock that is never set. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A new connection; never NULL. */
static redisContext *
connect_redis(void)
{
	redisContext *redis = redisConnectUnix(socket_path);

	if (redis == NULL || redis->err)
		die(socket_path, redis ? redis->errstr : "out of memory");
	return redis;
}

/* The script's name in Redis. */
static void
load_script(const char *path)
{
	char		text[8192];
	FILE	   *file = fopen(path, "r");
	size_t		length;
	redisContext *redis = connect_redis();
	redisReply *reply;

	if (file == NULL)
		die(path, "cannot be read");
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	fclose(file);
	reply = redisCommand(redis, "SCRIPT LOAD %s", text);
	if (reply == NULL || reply->type != REDIS_REPLY_STRING)
		die(path, reply ? reply->str : redis->errstr);
	snprintf(sha, sizeof(sha), "%s", reply->str);
	freeReplyObject(reply);
	redisFree(redis);
}

/* One request in the format of the protocol; returns its length. */
static int
format_request(char **request, Thread *thread)
{
	static const char *const open[] = {"1000000000000", "0.000001"};
	static const char *const closed[] = {"1", "0.000000001"};
	const char *const *rule = strcmp(bucket, "open") == 0 ? open : closed;
	char		names[MOST_TAKES][48];
	char		count[12];
	const char *argv[MOST_TAKES + 5] = {"EVALSHA", sha, count};
	int			argc = 3;

	snprintf(count, sizeof(count), "%d", takes);
	for (int i = 0; i < takes; i++)
	{
		snprintf(names[i], sizeof(names[i]), "%s:%d:%d", bucket, i,
				 keys > 1 ? rand_r(&thread->random) % keys : 0);
		argv[argc++] = names[i];
	}
	argv[argc++] = rule[0];
	argv[argc++] = rule[1];
	return redisFormatCommandArgv(request, argc, argv, NULL);
}

/* Sends the next requests; those for the only key were formatted once. */
static void
ask(Connection *c, Thread *thread, const char *hot, int hot_length)
{
	int			done = 0;

	for (int i = 0; i < depth; i++)
	{
		char	   *request;
		int			length;

		if (keys == 1)
		{
			redisAppendFormattedCommand(c->redis, hot, hot_length);
			continue;
		}
		length = format_request(&request, thread);
		redisAppendFormattedCommand(c->redis, request, length);
		redisFreeCommand(request);
	}
	c->sent = now();
	c->waiting = depth;
	while (!done)
		if (redisBufferWrite(c->redis, &done) != REDIS_OK)
			die("write", c->redis->errstr);
}

/* Reads what is there; whether all answers are. */
static bool
listen_to(Connection *c, Thread *thread)
{
	void	   *reply;

	if (redisBufferRead(c->redis) != REDIS_OK)
		die("read", c->redis->errstr);
	while (c->waiting > 0)
	{
		if (redisGetReplyFromReader(c->redis, &reply) != REDIS_OK)
			die("answer", c->redis->errstr);
		if (reply == NULL)
			return false;
		if (((redisReply *) reply)->type != REDIS_REPLY_INTEGER)
			die("answer", ((redisReply *) reply)->str);
		thread->admitted += ((redisReply *) reply)->integer;
		thread->decisions++;
		c->waiting--;
		freeReplyObject(reply);
	}
	return true;
}

/* One more decision that took so long. */
static void
note_latency(Thread *thread, double seconds)
{
	long		us = (long) (seconds * 1e6);

	thread->latency[us < SLOTS ? us : SLOTS - 1]++;
}

/* A thread: each of its connections asks, and asks again, until the end. */
static void *
run(void *argument)
{
	Thread	   *thread = argument;
	Connection	all[MOST_CONNECTIONS];
	struct pollfd fds[MOST_CONNECTIONS];
	char	   *hot;
	int			hot_length = format_request(&hot, thread);
	int			active = thread->connections;

	for (int i = 0; i < thread->connections; i++)
	{
		all[i].redis = connect_redis();
		fds[i] = (struct pollfd) {.fd = all[i].redis->fd, .events = POLLIN};
		ask(&all[i], thread, hot, hot_length);
	}
	while (active > 0)
	{
		if (poll(fds, thread->connections, -1) < 0)
			die("poll", "failed");
		for (int i = 0; i < thread->connections; i++)
		{
			double		t;

			if (!fds[i].revents || !listen_to(&all[i], thread))
				continue;
			t = now();
			note_latency(thread, t - all[i].sent);
			if (t < end)
				ask(&all[i], thread, hot, hot_length);
			else
			{
				fds[i].fd = -1;
				active--;
			}
		}
	}
	redisFreeCommand(hot);
	return NULL;
}

/* The latency in microseconds that a part of all does not exceed. */
static int
percentile(Thread *threads, int n, double part)
{
	long		all = 0,
				seen = 0;

	for (int t = 0; t < n; t++)
		for (int i = 0; i < SLOTS; i++)
			all += threads[t].latency[i];
	for (int i = 0; i < SLOTS; i++)
	{
		for (int t = 0; t < n; t++)
			seen += threads[t].latency[i];
		if (seen >= all * part)
			return i;
	}
	return SLOTS;
}

/* Prints decisions, admitted ones, seconds, and two percentiles of latency. */
int
main(int argc, char **argv)
{
	int			connections,
				n;
	long		decisions = 0,
				admitted = 0;
	Thread	   *threads;

	if (argc != 10)
		die("usage", "SOCKET SCRIPT BUCKET CONNECTIONS THREADS SECONDS TAKES KEYS DEPTH");
	socket_path = argv[1];
	bucket = argv[3];
	connections = atoi(argv[4]);
	n = atoi(argv[5]) < connections ? atoi(argv[5]) : connections;
	takes = atoi(argv[7]);
	keys = atoi(argv[8]);
	depth = atoi(argv[9]);
	if (n < 1 || connections > MOST_CONNECTIONS || takes < 1 || takes > MOST_TAKES || keys < 1 || depth < 1)
		die("usage", "an argument is out of range");
	load_script(argv[2]);
	threads = calloc(n, sizeof(Thread));
	if (threads == NULL)
		die("memory", "is used up");
	start = now();
	end = start + atof(argv[6]);
	for (int i = 0; i < n; i++)
	{
		threads[i].connections = connections / n + (i < connections % n);
		threads[i].random = i + 1;
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
			die("thread", "could not be created");
	}
	for (int i = 0; i < n; i++)
	{
		pthread_join(threads[i].id, NULL);
		decisions += threads[i].decisions;
		admitted += threads[i].admitted;
	}
	printf("%ld %ld %.6f %d %d\n", decisions, admitted, now() - start,
		   percentile(threads, n, 0.5), percentile(threads, n, 0.99));
	return 0;
}
