// The work of crates/toolweave-quickjs/examples/work.rs, done by the peer: prints one JSON object of medians.
// Times are in microseconds, memory in KiB. Needs Node 24 (the peer strips types with it).

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const RUNS = 40;
const CALLS = 1000;
const TOGETHER = 2000;
const LARGE = 5;
const SUSTAINED_MS = 2000;
const AT_ONCE = 4;
const LIVE = 50;

// The packages are not beside this file but in the folder that it is started in.
const require = createRequire(pathToFileURL(`${process.cwd()}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { WorkerThreadCodeRuntime } = await load("@deepseek-ai/dsh-code-runtime-worker-thread");
const { Context } = await load("@deepseek-ai/cordis");

const rows = Array.from({ length: 100_000 }, (_, n) => ({
  id: n,
  name: `row number ${n}`,
  tags: ["a", "b"],
  score: n + 0.5,
  ok: true,
  note: "some text",
}));

const runtime = new WorkerThreadCodeRuntime(new Context(), {
  computeMs: 60_000,
  maxWallMs: 600_000,
  maxOutputBytes: 67_108_864,
  maxOldGenerationSizeMb: 512,
});

let holding = 0;
let letGo;
const gate = new Promise((open) => {
  letGo = open;
});
const bindings = [
  {
    global: "tools",
    functions: {
      echo: async (argument) => argument,
      rows: async () => rows,
      hold: async () => {
        holding += 1;
        await gate;
        return null;
      },
    },
    errorClass: { name: "ToolCallError", memberNameProperty: "toolName" },
  },
];

async function run(program) {
  const begin = performance.now();
  const { error } = await runtime.run({ program, bindings });
  const time = performance.now() - begin;
  if (error) throw new Error(`${error.kind}: ${error.message}`);
  return time * 1000;
}

const median = (values) => values.sort((a, b) => a - b)[Math.round((values.length - 1) / 2)];
const proportional = () => {
  try {
    return Number(/^Pss:\s+(\d+)/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))[1]);
  } catch {
    return null;
  }
};

for (let i = 0; i < 5; i++) await run("return 1 + 1");

const fresh = [];
for (let i = 0; i < RUNS; i++) {
  await sleep(2);
  fresh.push(await run("return 1 + 1"));
}

const sequential = [];
const inFlight = [];
for (let i = 0; i < 5; i++) {
  sequential.push((await run(`for (let i = 0; i < ${CALLS}; i++) await tools.echo({ i })`)) / CALLS);
  inFlight.push(
    (await run(`await Promise.all(Array.from({ length: ${TOGETHER} }, (_, i) => tools.echo({ i })))`)) / TOGETHER,
  );
}

const large = [];
for (let i = 0; i < LARGE; i++) large.push(await run("return (await tools.rows({})).length"));

const begin = performance.now();
let count = 0;
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (performance.now() - begin < SUSTAINED_MS) {
      await run("return 1 + 1");
      count += 1;
    }
  }),
);
const runsPerSecond = count / ((performance.now() - begin) / 1000);

await sleep(500);
const before = proportional();
const live = Array.from({ length: LIVE }, () => run("await tools.hold({}); return 1"));
while (holding < LIVE) await sleep(10);
await sleep(300);
const during = proportional();
letGo();
await Promise.all(live);

console.log(
  JSON.stringify({
    placement: runtime.isolation,
    freshRun: median(fresh),
    sequentialCall: median(sequential),
    callInFlight: median(inFlight),
    largeResult: median(large),
    largeResultBytes: JSON.stringify(rows).length,
    runsPerSecond,
    memoryPerLiveRun: before === null || during === null ? null : (during - before) / LIVE,
  }),
);
process.exit(0);
