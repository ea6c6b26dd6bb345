//! Whatever a node answers to a part of a query, it is refused, or the query has an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = forebay_query::exercise::answer_part(bytes);
});
