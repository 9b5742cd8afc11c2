// client.js - what a Node.js process with so many connections gets done: through
// libraries that users would pick, and through quota by the same driver.
//
// usage: node client.js make graphile|boss DATABASE DIR   their tables, and their
//                                        statements as scripts for pgbench, in DIR
//        node client.js load boss DATABASE JOBS
//        node client.js run acquire|limiter DATABASE CLIENTS SECONDS
//        node client.js run jobs|next|graphile|boss|commits DATABASE CLIENTS JOBS BATCH
//
// A run begins with a second, or as many jobs again, that are not timed, in which code
// is compiled.  It prints: what was done a second, how much that was with those, and
// percentiles 50 and 99 of each turn in microseconds (not of graphile-worker, whose
// turns cannot be seen from outside).
'use strict';
const fs = require('fs');
const pg = require('pg');

const [verb, kind, database, ...rest] = process.argv.slice(2);
let latencies = [];
let pool;

// microseconds that this part of all turns does not exceed
function percentile(part) {
  latencies.sort((a, b) => a - b);
  return latencies.length ? latencies[Math.floor((latencies.length - 1) * part)] : '-';
}

// so many loops at once, each until turn() gives nothing more; what they did
async function loops(clients, turn) {
  let done = 0;
  async function loop() {
    for (;;) {
      const start = now();
      const n = await turn();
      if (n === 0) return;
      done += n;
      latencies.push((now() - start) * 1e6);
    }
  }
  await Promise.all(Array.from({ length: clients }, loop));
  return done;
}

// every connection is there before the clock runs
async function connect(clients) {
  pool = new pg.Pool({ database, max: clients });
  const all = await Promise.all(Array.from({ length: clients }, () => pool.connect()));
  all.forEach((client) => client.release());
}

const now = () => Number(process.hrtime.bigint()) / 1e9;

// what the caller reads: turns a second, all that was done, percentiles
function tell(timed, seconds, all) {
  console.log(timed / seconds, all, percentile(0.5), percentile(0.99));
}

// The same twice: only the second time counts
async function timed(work) {
  const before = await work();
  latencies = [];
  const start = now();
  const done = await work();
  tell(done, now() - start, before + done);
}

// Limits ------------------------------------------------------------------------

const acquire = {
  name: 'acquire',
  text: 'SELECT * FROM quota_acquire($1, $2, $3)',
  values: ['tenant 1', 'open', 'search'],
};

// Its README: a pool, and a table that is there; rows are cleared by whom it suits.
async function makeLimiter() {
  const { RateLimiterPostgres } = require('rate-limiter-flexible');
  return new RateLimiterPostgres({
    storeClient: pool, points: 2000000000, duration: 1000000000,
    tableName: 'rlflx', keyPrefix: '', tableCreated: true, clearExpiredByTimeout: false,
  });
}

const decide = {
  acquire: async () => async () => (await pool.query(acquire)).rows[0].admitted,
  limiter: async () => {
    const limiter = await makeLimiter();
    return async () => (await limiter.consume('open')).consumedPoints > 0;
  },
};

// decisions for so many seconds, after one second that does not count
async function runDecisions(clients, seconds) {
  const one = await decide[kind]();
  let time = 1;
  await timed(() => {
    const end = Date.now() + time * 1000;
    time = seconds;
    return loops(clients, async () => {
      if (Date.now() >= end) return 0;
      if (!await one()) throw new Error('refused');
      return 1;
    });
  });
}

// Jobs ----------------------------------------------------------------------------

// a pg-boss without its own maintenance, so that only what is asked of it runs
function newBoss(options) {
  const PgBoss = require('pg-boss');
  const boss = new PgBoss({ database, max: Number(rest[0]) || 1, supervise: false, schedule: false, ...options });
  boss.on('error', (error) => { throw error; });
  return boss;
}

const claim = {
  name: 'claim', text: 'SELECT id, attempt, payload FROM quota_dequeue($1, $2)',
};
const complete = {
  name: 'complete', text: 'SELECT quota_complete($1::bigint, $2::int)',
};
const completeAndClaim = {
  name: 'complete_and_claim',
  text: 'SELECT d.id, d.attempt, d.payload FROM quota_complete($1::bigint, $2::int) LEFT JOIN quota_dequeue($3::text) d ON true',
};
const completeAll = {
  name: 'complete_all', text: 'SELECT quota_complete($1::bigint[], $2::int[])',
};

const commit = { name: 'commit', text: "SELECT pg_logical_emit_message(true, 'bench', '')" };

const take = {
  // what any queue needs for a job: two durable commits
  commits: async () => async () => {
    await pool.query(commit);
    await pool.query(commit);
    return 1;
  },
  jobs: async () => async (batch) => {
    const { rows } = await pool.query({ ...claim, values: ['open', batch] });
    if (batch === 1) await pool.query({ ...complete, values: [rows[0].id, rows[0].attempt] });
    else await pool.query({ ...completeAll, values: [rows.map((r) => r.id), rows.map((r) => r.attempt)] });
    return rows.length;
  },
  // each loop completes its job and claims its next one by one statement
  next: async () => {
    const held = [];
    return async () => {
      const job = held.pop() || (await pool.query({ ...claim, values: ['open', 1] })).rows[0];
      const { rows } = await pool.query({ ...completeAndClaim, values: [job.id, job.attempt, 'open'] });
      if (rows[0].id !== null) held.push(rows[0]);
      return 1;
    };
  },
  boss: async () => {
    const boss = newBoss();
    await boss.start();
    return async (batch) => {
      const jobs = await boss.fetch('bench', { batchSize: batch, priority: false });
      await boss.complete('bench', jobs.map((job) => job.id));
      return jobs.length;
    };
  },
};

// so many jobs, claimed and completed in batches of this size
async function runJobs(clients, jobs, batch) {
  const turn = await take[kind]();
  await timed(() => {
    let left = jobs;
    return loops(clients, async () => {
      if (left <= 0) return 0;
      left -= batch;
      return turn(batch);
    });
  });
}

// Until a task has run twice so often, and those that were begun meanwhile.  Its performance notes ask for concurrency, a pool as large, and prepared
// statements.
async function runGraphile(clients, jobs) {
  const { run, Logger } = require('graphile-worker');
  let ran = 0;
  let start;
  let end;
  let enough;
  const all = new Promise((resolve) => { enough = resolve; });
  async function bench() {
    ran += 1;
    end = now();
    if (ran === jobs) start = end;
    if (ran === 2 * jobs) enough();
  }
  const runner = await run({
    pgPool: pool, concurrency: clients, noHandleSignals: true, crontab: '',
    logger: new Logger(() => () => {}), taskList: { bench },
  });
  await all;
  await runner.stop();
  tell(ran - jobs, end - start, ran);
}

// Their statements ----------------------------------------------------------------

// What a library sends to the server while work() runs.
async function overhear(work) {
  const heard = [];
  const query = pg.Client.prototype.query;
  pg.Client.prototype.query = function (first, values, ...others) {
    if (typeof first === 'string') heard.push({ text: first, values });
    else if (first && first.text) heard.push({ text: first.text, values: first.values });
    return query.call(this, first, values, ...others);
  };
  await work();
  pg.Client.prototype.query = query;
  return heard;
}

// a value as it stands in SQL
function literal(value) {
  if (value === null || value === undefined) return 'NULL';
  if (Array.isArray(value)) return `'{${value.join(',')}}'`;
  return typeof value === 'number' ? String(value) : `'${value}'`;
}

// On one line, each parameter replaced by what "given" says, or by its value.
function statement(heard, pattern, given) {
  const { text, values } = heard.find((h) => pattern.test(h.text));
  return text.replace(/--.*$/gm, '').replace(/\s+/g, ' ').trim().replace(/;$/, '')
    .replace(/\$(\d+)/g, (_, n) => given[n] || literal(values[n - 1]));
}

// for pgbench; the first transaction of a session only connects
function writeScript(name, lines) {
  const script = ['\\if :warm', ...lines, '\\else', 'SELECT 1;', '\\set warm 1', '\\endif', ''];
  fs.writeFileSync(`${rest[0]}/${name}.pgbench`, script.join('\n'));
}

// the statements of graphile-worker, as it sends them, for pgbench
async function makeGraphile() {
  const { runMigrations, runOnce, Logger } = require('graphile-worker');
  const logger = new Logger(() => () => {});
  await connect(2);
  await runMigrations({ pgPool: pool, logger });
  await pool.query("SELECT graphile_worker.add_job('bench')");
  const heard = await overhear(() => runOnce({ pgPool: pool, logger, noHandleSignals: true, taskList: { bench: async () => {} } }));
  writeScript('graphile', [
    `${statement(heard, /^with j as[^]*skip locked[^]*returning \*/, {})} \\gset`,
    `${statement(heard, /^delete from/, { 1: ':id' })};`,
  ]);
}

// those of pg-boss, one job at a time and in batches
async function makeBoss() {
  const boss = newBoss({ max: 1 });
  await boss.start();
  await boss.createQueue('bench');
  const id = await boss.send('bench', { contact: 1 });
  let claimed;
  const heard = await overhear(async () => {
    claimed = await boss.fetch('bench', { batchSize: 1, priority: false });
    await boss.complete('bench', [id]);
  });
  if (claimed.length !== 1) throw new Error('pg-boss did not give its job');
  await boss.stop({ graceful: false });
  const fetch = (batch) => statement(heard, /SKIP LOCKED/, { 2: String(batch) });
  const finish = statement(heard, /completed_on = now\(\)/, { 2: ':ids' });
  writeScript('boss', [`${fetch(1)} \\gset`, `${finish.replace(':ids', "ARRAY[:id]")};`]);
  // many rows as one: pgbench keeps values of one row only
  writeScript('boss_batch', [
    `${fetch(50).replace(/\) UPDATE /, '), got AS (UPDATE ').replace(/RETURNING .*$/, 'RETURNING j.id, j.name, j.data)')} SELECT array_agg(id) AS ids FROM got \\gset`,
    `${finish};`,
  ]);
}

// so many jobs to do
async function loadBoss(jobs) {
  const boss = newBoss({ max: 1 });
  await boss.start();
  for (let i = 0; i < jobs; i += 1000) {
    const some = Array.from({ length: Math.min(1000, jobs - i) }, (_, k) => ({ name: 'bench', data: { contact: i + k } }));
    await boss.insert(some);
  }
  await boss.stop({ graceful: false });
}

// see the head of this file
async function main() {
  if (verb === 'make') return kind === 'boss' ? makeBoss() : makeGraphile();
  if (verb === 'load') return loadBoss(Number(rest[0]));
  const [clients, amount, batch] = rest.map(Number);
  await connect(clients);
  if (decide[kind]) return runDecisions(clients, amount);
  return kind === 'graphile' ? runGraphile(clients, amount) : runJobs(clients, amount, batch);
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
