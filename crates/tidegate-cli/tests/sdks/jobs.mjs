// Jobs with the official npm package, as anybody would write them: its base URL from the environment, its retries on.
//
//     node jobs.mjs PREFIX JOBS [WORKERS]
//
// Half of the jobs are streamed. The last line says what became of them, and which statuses the SDK saw.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is where the test command put it, and not beside this file.
const require = createRequire(pathToFileURL(`${process.env.TIDEGATE_SDKS_JS}/`));
const { OpenAI } = require("openai");

const [prefix, jobs, workers] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4] ?? 8)];
const statuses = {};
const client = new OpenAI({
  apiKey: "any",
  fetch: async (...request) => {
    const reply = await fetch(...request);
    statuses[reply.status] = (statuses[reply.status] ?? 0) + 1;
    return reply;
  },
});

const asked = { model: "sim", max_tokens: 8, messages: [{ role: "user", content: "What is a tide?" }] };

async function plain(headers) {
  const reply = await client.chat.completions.create(asked, { headers });
  return reply.choices[0].message.content;
}

async function streamed(headers) {
  let text = "";
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true }, { headers })) {
    text += chunk.choices[0].delta.content ?? "";
  }
  return text;
}

const errors = [];
let next = 0;
async function worker() {
  while (next < jobs) {
    const number = next++;
    try {
      const text = await (number % 2 ? streamed : plain)({ "x-sim-id": `${prefix}-${number}` });
      // Eight tokens of four characters: a stream that lacks a piece is no answer.
      if (text.length < 30 || !text.startsWith("sea sea")) throw new Error(`job ${number} got ${text}`);
    } catch (error) {
      errors.push(String(error));
    }
  }
}

const began = performance.now();
await Promise.all(Array.from({ length: workers }, worker));
const seconds = (performance.now() - began) / 1000;
console.log(JSON.stringify({ done: jobs - errors.length, errors, statuses, seconds }));
