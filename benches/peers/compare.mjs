// Starts both sides in turn, several rounds, and prints the median of each figure and how many times the peer takes.
// Called by ./run, in the folder that holds the peer's packages.

import { execFileSync } from "node:child_process";
import { loadavg } from "node:os";

const [ours, peer, rounds] = process.argv.slice(2);
const sides = {
  worker: [ours, ["worker"]],
  thread: [ours, ["thread"]],
  peer: [process.execPath, ["--no-warnings", peer]],
};
const figures = [
  // name, unit, from the measured unit, whether less is better
  ["freshRun", "fresh trivial run", "ms", 1e-3, true],
  ["sequentialCall", "call, one after another", "µs", 1, true],
  ["callInFlight", "call, 2 000 in flight", "µs", 1, true],
  ["largeResult", "10 MB JSON result", "ms", 1e-3, true],
  ["runsPerSecond", "runs a second, 4 at a time", "", 1, false],
  ["memoryPerLiveRun", "memory a live run", "MiB", 1 / 1024, true],
];

const load = [];
const measured = { worker: [], thread: [], peer: [] };
for (let round = 1; round <= Number(rounds); round++) {
  for (const [side, [program, args]] of Object.entries(sides)) {
    load.push(loadavg()[0]);
    const out = execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
    measured[side].push(JSON.parse(out));
    process.stderr.write(`round ${round} of ${rounds}: ${side} done\n`);
  }
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const of = (side, name) => median(measured[side].map((figure) => figure[name]));
const digits = (number) => (number >= 100 ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2));

const lines = [["", "worker", "thread", "peer", "peer / worker", "peer / thread"]];
for (const [name, title, unit, factor, less] of figures) {
  const [worker, thread, other] = ["worker", "thread", "peer"].map((side) => of(side, name));
  const shown = (value) => (value === null ? "not readable" : `${digits(value * factor)} ${unit}`.trim());
  const ratio = (value) =>
    value === null || other === null ? "" : `${digits(less ? other / value : value / other)}x`;
  lines.push([title, shown(worker), shown(thread), shown(other), ratio(worker), ratio(thread)]);
}
const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
for (const line of lines) console.log(line.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd());
const [least, most] = [Math.min(...load), Math.max(...load)].map((value) => value.toFixed(1));
console.log(`\n${rounds} rounds, Node ${process.version}, load average of the machine ${least} to ${most} when a side started`);
