// Lists the tools of a stdio server, calls run_code with the program in PROGRAM, and prints both as one JSON object.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, env: process.env });
const client = new Client({ name: "public-client-v1", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({
  name: "run_code",
  arguments: { description: "Use both servers", code: process.env.PROGRAM },
});
await client.close();
console.log(JSON.stringify({ tools, result }));
