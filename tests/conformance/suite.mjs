// Runs the official suite again and again in one process: its libraries take longer to load than its scenarios to run.
//
// The argument is the suite's program. A line of the input is a run, {"arguments", "environment", "folder"}; a line of
// the output is what it said and its exit status, {"code", "output"}. The suite itself is loaded anew for each run.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [interpreter, , program] = process.argv;
const answer = process.stdout.write.bind(process.stdout);
let count = 0;

class Left extends Error {}

function run(order) {
  return new Promise((resolve) => {
    let output = "";
    const write = (chunk, encoding, done = encoding) => {
      output += chunk;
      if (typeof done === "function") done();
      return true;
    };
    const leave = (code = 0) => {
      resolve({ code, output });
      throw new Left();
    };
    const fail = (error) => {
      if (!(error instanceof Left)) resolve({ code: 1, output: `${output}${error.stack}` });
    };
    Object.assign(process, { argv: [interpreter, program, ...order.arguments], exit: leave });
    process.stdout.write = process.stderr.write = write;
    process.removeAllListeners("unhandledRejection").on("unhandledRejection", fail);
    process.removeAllListeners("uncaughtException").on("uncaughtException", fail);
    for (const name of Object.keys(process.env)) delete process.env[name];
    Object.assign(process.env, order.environment);
    process.chdir(order.folder);
    import(`${pathToFileURL(program)}?${++count}`).catch(fail);
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  answer(`${JSON.stringify(await run(JSON.parse(line)))}\n`);
}
process.reallyExit(0);
