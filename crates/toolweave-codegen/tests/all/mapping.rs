//! Schema in, type out.

use serde_json::json;
use toolweave_codegen::type_of;

#[test]
fn plain_types() {
    for (schema, expected) in [
        (json!({"type": "string"}), "string"),
        (
            json!({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}),
            "(number | null)[]",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            "{ a?: string } & JsonObject",
        ),
    ] {
        assert_eq!(type_of(&schema).text, expected, "{schema}");
    }
}
