const KEYWORDS = ["sandbox", "latency", "architecture"];

interface Row {
  path: string;
  title: string;
  lines: number;
  mentions: number;
}

const { paths } = await tools.glob({ pattern: "**/*.md" });
const documents = await Promise.all(
  paths.map(async (path) => ({ path, ...(await tools.read({ path })) })),
);

const rows: Row[] = [];
for (const { path, text, totalLines } of documents) {
  const lower = text.toLowerCase();
  const mentions = KEYWORDS.reduce((sum, word) => sum + lower.split(word).length - 1, 0);
  if (mentions === 0) continue;
  const title = text.match(/^#\s+(.+)$/m)?.[1] ?? path;
  rows.push({ path, title, lines: totalLines, mentions });
}

rows.sort((a, b) => b.mentions - a.mentions || a.path.localeCompare(b.path));
console.log(`${rows.length} of ${documents.length} documents match`);
return rows.slice(0, 5);
