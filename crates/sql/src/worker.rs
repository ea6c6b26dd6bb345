//! `forebay-sql worker`: carries out one fragment, which a daemon gives it on standard input, with the files that it may read; the
//! answer is an Arrow IPC stream on standard output. It ends when the daemon does, or gives the fragment up.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Write};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::path::Path;
use datafusion::physical_plan::execute_stream;
use datafusion_proto::bytes::physical_plan_from_bytes;
use futures::TryStreamExt;
use serde::Deserialize;

use crate::cut::is_fragment;
use crate::session;
use crate::store::Placed;

/// The memory for groups on a node, bytes: it has programs to run.
const MEMORY_BYTES: usize = 1 << 30;

/// The limit of a daemon's message.
const QUESTION_BYTES_MAX: u32 = 1 << 20;

/// The files of a fragment: the absolute path that the plan has, and where the file lies here.
#[derive(Deserialize)]
struct Question {
    files: Vec<(String, String)>,
}

/// Carries out the fragment that comes on standard input.
pub async fn run() -> anyhow::Result<()> {
    let mut input = io::stdin().lock();
    let (question, plan) = (part(&mut input)?, part(&mut input)?);
    drop(input);
    thread::spawn(|| {
        // No more input comes; the end does, when the query is given up.
        let _ = io::stdin().lock().read(&mut [0]);
        std::process::exit(1);
    });
    carry_out(&question, &plan, BufWriter::new(io::stdout())).await
}

async fn carry_out(question: &[u8], plan: &[u8], to: impl Write) -> anyhow::Result<()> {
    let Question { files } = serde_json::from_slice(question).context("the request cannot be decoded")?;
    let path = |text: &str| Path::from_absolute_path(text).with_context(|| format!("{text} is not a path"));
    let places =
        files.iter().map(|(name, at)| Ok((path(name)?, path(at)?))).collect::<anyhow::Result<HashMap<_, _>>>()?;
    let context = session::for_plans(MEMORY_BYTES)?;
    context.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), Arc::new(Placed::new(places)));
    let plan = physical_plan_from_bytes(plan, &context.task_ctx())?;
    if !is_fragment(&plan) {
        bail!("the plan is not a fragment");
    }
    let mut rows = execute_stream(plan, context.task_ctx())?;
    let mut writer = StreamWriter::try_new(to, &rows.schema())?;
    while let Some(batch) = rows.try_next().await? {
        writer.write(&batch)?;
    }
    writer.into_inner()?.flush()?;
    Ok(())
}

fn part(input: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    let mut len = [0; 4];
    input.read_exact(&mut len).context("the request is incomplete")?;
    let len = u32::from_be_bytes(len);
    if len > QUESTION_BYTES_MAX {
        bail!("a question of {len} bytes");
    }
    let mut part = vec![0; len as usize];
    input.read_exact(&mut part).context("the request is incomplete")?;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::panic::AssertUnwindSafe;
    use std::time::Duration;

    use datafusion::arrow::ipc::reader::StreamReader;
    use datafusion_proto::bytes::physical_plan_to_bytes;
    use futures::FutureExt;
    use serde_json::json;

    use crate::cut::cut;
    use crate::session::Options;
    use crate::tables::{Dialect, Tables};

    /// The whole plan of a statement over a file, and the plans of its fragments.
    async fn plans(statement: &str, file: &std::path::Path) -> (Vec<u8>, Vec<Vec<u8>>) {
        let dialect = Dialect { delimiter: b',', has_header: true, has_newlines: false };
        let named = [("t".to_owned(), file.to_str().unwrap().to_owned())];
        let options = Options { memory_bytes: 1 << 26, named: &named };
        let context = session::for_statements(Tables::new(dialect), options).await.unwrap();
        let plan = context.state().create_logical_plan(statement).await.unwrap();
        let plan = context.state().create_physical_plan(&plan).await.unwrap();
        let mut fragments = vec![];
        cut(Arc::clone(&plan), &mut |fragment| {
            let groups = [datafusion::datasource::physical_plan::FileGroup::new(fragment.files())];
            fragments.push(physical_plan_to_bytes(fragment.over(&groups)?)?.to_vec());
            Ok(None)
        })
        .unwrap();
        (physical_plan_to_bytes(plan).unwrap().to_vec(), fragments)
    }

    async fn made(files: serde_json::Value, plan: &[u8]) -> Result<usize, String> {
        let mut answer = vec![];
        let question = json!({"files": files}).to_string();
        carry_out(question.as_bytes(), plan, &mut answer).await.map_err(|error| format!("{error:#}"))?;
        let batches = StreamReader::try_new(&*answer, None).unwrap();
        Ok(batches.map(|batch| batch.unwrap().num_rows()).sum())
    }

    #[tokio::test]
    async fn a_fragment_reads_its_files_where_they_lie_and_no_others() {
        let temporary = tempfile::tempdir().unwrap();
        let (file, moved) = (temporary.path().join("t.csv"), temporary.path().join("moved"));
        fs::write(&file, "a,b\n1,2\n1,3\n2,4\n").unwrap();
        let (whole, fragments) = plans("SELECT a, sum(b) FROM t GROUP BY a", &file).await;
        let [fragment] = &fragments[..] else { panic!("{} fragments", fragments.len()) };
        assert_eq!(made(json!([[file, file]]), fragment).await, Ok(2), "groups");
        fs::rename(&file, &moved).unwrap();
        assert_eq!(made(json!([[file, moved]]), fragment).await, Ok(2), "where it lies");
        fs::copy(&moved, &file).unwrap();
        let refused = made(json!([[moved, moved]]), fragment).await.unwrap_err();
        assert!(refused.contains("not a file of this fragment"), "{refused}");
        // A plan that is more than a fragment is refused, whatever it reads.
        let refused = made(json!([[file, file]]), &whole).await.unwrap_err();
        assert!(refused.contains("not a fragment"), "{refused}");
        made(json!([[file, file]]), b"no plan").await.unwrap_err();
    }

    /// Bytes changed, cut off, put in and repeated at random: each is refused or answered, and no other file is read.
    #[tokio::test]
    async fn a_question_with_errors_is_refused_or_answered() {
        let temporary = tempfile::tempdir().unwrap();
        let (file, other) = (temporary.path().join("t.csv"), temporary.path().join("u.csv"));
        fs::write(&file, "a,b\n1,2\n1,3\n2,4\n").unwrap();
        fs::write(&other, "a,b\n77,77\n").unwrap();
        let (_, fragments) = plans("SELECT a, stats(b), min(b) FROM t WHERE a > 1 GROUP BY a", &file).await;
        let question = json!({"files": [[file, file]]}).to_string().into_bytes();
        let mut random = Random(7);
        let (mut refused, mut answered) = (0, 0);
        for _ in 0..3000 {
            let (mut asked, mut plan) = (question.clone(), fragments[0].clone());
            for _ in 0..=random.below(3) {
                let is_asked = random.below(8) == 0;
                random.damage(if is_asked { &mut asked } else { &mut plan });
            }
            let mut answer = vec![];
            // The engine panics on some plans that no statement makes: that ends the worker, which is a process of its own.
            let carried_out = AssertUnwindSafe(carry_out(&asked, &plan, &mut answer)).catch_unwind();
            let made = tokio::time::timeout(Duration::from_secs(60), carried_out).await;
            match made.expect("no question takes long") {
                Ok(Ok(())) => answered += 1,
                Ok(Err(_)) | Err(_) => refused += 1,
            }
            let has_other = answer.windows(8).any(|bytes| bytes == 77_i64.to_le_bytes());
            assert!(asked != question || !has_other, "a file that was not named was read");
        }
        assert!(refused > 50 && answered > 50, "{refused} refused, {answered} answered");
    }

    /// Marsaglia's xorshift.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end.max(1) as u64) as usize
        }

        fn damage(&mut self, bytes: &mut Vec<u8>) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.insert(at, self.below(256) as u8),
                3 if self.below(4) == 0 => bytes.truncate(at),
                _ => {
                    let piece = bytes[at..bytes.len().min(at + self.below(40))].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
    }

    #[tokio::test]
    async fn parts_of_plans_that_rows_pass_through_are_cut() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("t.csv");
        fs::write(&file, "a,b\n1,2\n1,3\n2,4\n").unwrap();
        for (statement, fragments) in [
            ("SELECT sum(b) FROM t", 1),
            ("SELECT stats(b), entropy(a) FROM t WHERE a > 1", 1),
            ("SELECT a FROM t WHERE b > 2 ORDER BY a", 1),
            ("SELECT x.a, sum(x.b) FROM t x JOIN t y ON x.a = y.b WHERE x.b > 1 AND y.a > 0 GROUP BY x.a", 2),
            // As many rows would come as there are.
            ("SELECT a FROM t", 0),
            ("SELECT a FROM t ORDER BY b LIMIT 1", 0),
            // Any rows do, so the first ones here.
            ("SELECT count(*) FROM (SELECT a FROM t LIMIT 2)", 0),
        ] {
            assert_eq!(plans(statement, &file).await.1.len(), fragments, "{statement}");
        }
    }
}
