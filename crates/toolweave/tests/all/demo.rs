//! The main job, as the README's first command shows it.

use crate::support::Desk;

#[test]
fn demo_shows_documents_calls_result_and_savings() {
    let desk = Desk::new();
    // A configuration in the way changes nothing.
    desk.write("toolweave.yml", "mode: [broken");
    for placement in ["worker", "thread"] {
        let ran = desk.run(&["demo", "--placement", placement]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let at = |needle: &str| {
            ran.out
                .find(needle)
                .unwrap_or_else(|| panic!("`{needle}` is missing:\n{}", ran.out))
        };
        let order = [
            "Documents",
            "architecture/overview.md",
            "Program",
            "Promise.all",
            "Calls",
            "read(",
            "Result",
            "\"mentions\"",
            "What that saves",
            "turns",
        ];
        let places: Vec<_> = order.iter().map(|needle| at(needle)).collect();
        assert!(at("Result") < at("What that saves"), "{}", ran.out);
        assert!(
            places[0] < places[2] && places[2] < places[4] && places[4] < places[6],
            "{}",
            ran.out
        );
        assert_eq!(ran.out.matches("\"mentions\"").count(), 5, "{}", ran.out);
        assert!(ran.out.contains("characters stayed out of the model's context"));
        assert!(!ran.out.contains('\u{1b}'), "no colour in a pipe");
    }
}

#[test]
fn demo_runs_on_a_folder_of_ones_own() {
    let desk = Desk::new();
    desk.write("mine/a.md", "# A\nsandbox sandbox\n");
    desk.write("mine/b.md", "# B\nlatency\n");
    desk.write("mine/c.md", "# C\nnothing\n");
    let ran = desk.run(&["demo", "--docs", "mine"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (a, b) = (ran.out.find("\"title\": \"A\""), ran.out.find("\"title\": \"B\""));
    assert!(
        a.is_some() && a < b && !ran.out.contains("\"title\": \"C\""),
        "{}",
        ran.out
    );
    let ran = desk.run(&["demo", "--docs", "missing"]);
    assert!(ran.code == Some(2) && ran.err.contains("missing"), "{ran:?}");
}
