// The same with the second generation of the SDK, which tries the newest protocol revision first.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, env: process.env });
const client = new Client({ name: "public-client-v2", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
await client.connect(transport);
const negotiated = client.getNegotiatedProtocolVersion?.();
const { tools } = await client.listTools();
const result = await client.callTool({
  name: "run_code",
  arguments: { description: "Use both servers", code: process.env.PROGRAM },
});
await client.close();
console.log(JSON.stringify({ negotiated, tools, result }));
