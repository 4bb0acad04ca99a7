use toolweave_runtime::Limits;

use crate::support::{outcome, run, runtime};

#[tokio::test]
async fn a_program_talks_to_its_host() {
    let Some(runtime) = runtime(Limits::default()) else {
        return;
    };
    eprintln!("{} {:?}", runtime.describe(), runtime.sandbox());
    let result = run(
        &runtime,
        "console.log('hi', {a: 1}); return [await tools.echo({v: 1}), tools.ask(2)]",
    )
    .await;
    assert_eq!(outcome(&result), r#"[{"v":1},2]"#);
    eprintln!("{:?}", result.usage);
    assert_eq!(result.logs, ["hi { a: 1 }"]);
}
