//! How long a program takes from the model's text to JavaScript.

use divan::{Bencher, black_box};
use toolweave_program::prepare;

const SMALL: &str = "const { docs } = await tools.list_docs({ prefix: \"data/\" });\n\
const sizes: { id: string; chars: number }[] = docs.map((d: Doc) => ({ id: d.id, chars: d.chars }));\n\
interface Doc { id: string; chars: number }\n\
sizes.sort((x, y) => y.chars - x.chars);\n\
return { largest: sizes[0]!.id, count: sizes.length };\n";

fn main() {
    divan::main();
}

#[divan::bench]
fn small(bencher: Bencher<'_, '_>) {
    bencher.bench(|| prepare(black_box(SMALL)));
}

#[divan::bench]
fn small_fenced(bencher: Bencher<'_, '_>) {
    let text = format!("```ts\n{SMALL}```\n");
    bencher.bench(|| prepare(black_box(&text)));
}

#[divan::bench]
fn small_transformed(bencher: Bencher<'_, '_>) {
    let text = format!("enum Level {{ Low, High }}\n{SMALL}");
    bencher.bench(|| prepare(black_box(&text)));
}

#[divan::bench]
fn large(bencher: Bencher<'_, '_>) {
    let text = SMALL
        .replace("return", "var result =")
        .replace("const", "var")
        .repeat(200)
        + "return result";
    bencher
        .counter(divan::counter::BytesCount::of_str(&text))
        .bench(|| prepare(black_box(&text)));
}
