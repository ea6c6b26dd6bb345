//! Fields of a node's JSON. A daemon of another build may lack some.

use serde_json::Value;

/// The number at a place; 0 where there is none.
pub fn number(node: &Value, pointer: &str) -> u64 {
    node.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// The text at a place.
pub fn text(node: &Value, pointer: &str) -> Option<String> {
    node.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}
