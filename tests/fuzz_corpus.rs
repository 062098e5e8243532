//! Replays the committed corpus of the fuzz targets (`fuzz/corpus/`) on the very same code, in a
//! process with little address space: a size in a header that is believed ends it.
//!
//! `IGNN_REWRITE=1 cargo test --test engine fuzz_corpus` writes those seeds again that are made by
//! the program itself; the others are made by hand or were found by the fuzzers.

#[path = "../fuzz/src/targets.rs"]
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, ListArray, RecordBatch, StringArray};
use ignn::models::Model;
use ignn::run::{Run, RunDir};
use ignn::train::Trainer;
use parquet::arrow::ArrowWriter;

use super::architecture::project;
use super::damage::edit_tensors;

/// Set in the process that replays.
const REPLAY: &str = "IGNN_REPLAY_CORPUS";
/// Address space of that process, in KiB: the program, its threads, and little more.
const ADDRESS_SPACE: u64 = 1 << 20;
/// All of the corpus, in bytes.
const MAX_CORPUS: u64 = 200 << 10;

fn corpus() -> PathBuf {
    project().join("fuzz/corpus")
}

/// The inputs of a target, in the order of their names.
fn inputs(target: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus().join(target)).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_input_of_the_corpus_passes() {
    if std::env::var_os(REPLAY).is_some() {
        for (target, body) in targets::TARGETS {
            for path in inputs(target) {
                println!("{}", path.display());
                body(&fs::read(&path).unwrap());
            }
        }
        return;
    }
    if std::env::var_os("IGNN_REWRITE").is_some() {
        write_seeds();
    }
    let limited = format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" \"$@\"");
    let program = std::env::current_exe().unwrap();
    let this = "fuzz_corpus::every_input_of_the_corpus_passes";
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(program).args([this, "--exact", "--nocapture"]);
    command.envs([(REPLAY, "1"), ("RAYON_NUM_THREADS", "1"), ("MALLOC_ARENA_MAX", "2")]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().rfind(|line| line.contains("corpus")).unwrap_or("none");
    assert!(
        output.status.success(),
        "the last input was {last}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("run_files"), "the corpus was replayed:\n{said}");
}

#[test]
fn every_target_has_a_program_and_a_small_corpus() {
    let manifest = fs::read_to_string(project().join("fuzz/Cargo.toml")).unwrap();
    let mut bytes = 0;
    for (target, _) in targets::TARGETS {
        let program = project().join(format!("fuzz/fuzz_targets/{target}.rs"));
        let text = fs::read_to_string(program).unwrap();
        assert_eq!(text, format!("#![no_main]\nignn_fuzz::fuzz!(\"{target}\");\n"));
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{target}\"\n")), "{target}");
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "{target} has no corpus");
        bytes += inputs.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    }
    assert!(bytes <= MAX_CORPUS, "the corpus has {bytes} bytes");
    let folders = fs::read_dir(corpus()).unwrap().count();
    assert_eq!(folders, targets::TARGETS.len(), "a corpus without a target");
}

fn write_seed(target: &str, name: &str, bytes: &[u8]) {
    let directory = corpus().join(target);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(name), bytes).unwrap();
}

/// A file of tensors without its checksum, which a fuzzer would not get past.
fn unsealed(path: &Path) -> Vec<u8> {
    edit_tensors(path, |_, _| {});
    fs::read(path).unwrap()
}

/// Seeds that the program makes.
fn write_seeds() {
    let directory = tempfile::tempdir().unwrap();
    let (graph, config) = &*targets::TRAINED.with(Rc::clone);
    let mut trainer = Trainer::new(graph, config.clone()).unwrap();
    let state = directory.path().join("state.safetensors");
    trainer.save(&state).unwrap();
    write_seed("checkpoint", "start", &unsealed(&state));
    trainer.advance().unwrap();
    trainer.save(&state).unwrap();
    write_seed("checkpoint", "epoch", &unsealed(&state));
    let file = directory.path().join("model.safetensors");
    let model: Model = Trainer::new(graph, config.clone()).unwrap().fit().unwrap().model;
    model.save(&file).unwrap();
    write_seed("model", "trained", &unsealed(&file));
    write_seed("config", "defaults", config.to_toml().as_bytes());

    let run = RunDir::new(directory.path().join("run"));
    let never = std::sync::atomic::AtomicBool::new(false);
    Run::new(graph.clone(), config.clone(), run.path()).train(&mut (), &never).unwrap();
    let read = |name: &str| {
        let text = fs::read_to_string(run.path().join(name)).unwrap();
        // Where the seed was made does not matter.
        let ours = text.lines().map(|line| match line.trim_start().starts_with("\"processor\"") {
            true => "\"processor\": null,\n".to_string(),
            false => format!("{line}\n"),
        });
        (format!("run/{name}"), ours.collect::<String>().into_bytes())
    };
    let files = ["metrics.jsonl", "run.json", "config.toml"].map(read);
    let files = files.each_ref().map(|(name, bytes)| (name.as_str(), bytes.clone()));
    write_seed("run_files", "run", &targets::pack(&files, targets::RUN_FILES));

    for name in ["graphs", "relations"] {
        let golden = project().join("ingest/format/tests/golden/v1").join(name);
        let mut files = Vec::new();
        for file in targets::DATASET_FILES {
            let path = golden.join(&file[2..]);
            if let Ok(bytes) = fs::read(path) {
                files.push((*file, bytes));
            }
        }
        let packed = targets::pack(&files, targets::DATASET_FILES);
        write_seed("dataset", name, &[&[0], &packed[..]].concat());
        write_seed("dataset", &format!("{name}-sealed"), &[&[1], &packed[..]].concat());
    }

    let integers = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let floats = Arc::new(Float32Array::from(vec![0.5, 1.0, 2.0, 0.0])) as ArrayRef;
    let words = Arc::new(StringArray::from(vec!["a", "b", "a", "train"])) as ArrayRef;
    let lists = (0..4).map(|row| Some(vec![Some(row as f32), Some(1.0)]));
    let lists = ListArray::from_iter_primitive::<arrow_array::types::Float32Type, _, _>(lists);
    let node = ("node", integers(&[0, 1, 2, 3]));
    type Columns = Vec<(&'static str, ArrayRef)>;
    let tables: [(u8, &str, Columns); 6] = [
        (0, "labels", vec![node.clone(), ("label", words.clone())]),
        (1, "splits", vec![node.clone(), ("split", words.clone())]),
        (2, "features", vec![node.clone(), ("f0", floats.clone())]),
        (3, "lists", vec![("x", Arc::new(lists))]),
        (
            4,
            "edges",
            vec![
                ("source", integers(&[0, 1, 2, 3])),
                ("target", integers(&[1, 2, 3, 0])),
                ("weight", floats),
            ],
        ),
        (4, "words", vec![("source", words.clone()), ("target", words)]),
    ];
    for (kind, name, columns) in tables {
        write_seed("parquet", name, &[&[kind], &parquet_file(&columns)[..]].concat());
    }
}

fn parquet_file(columns: &[(&str, ArrayRef)]) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn files_are_packed_and_unpacked() {
    let names = ["a", "b"];
    let packed = targets::pack(&[("b", b"xyz".to_vec()), ("a", vec![])], &names);
    assert_eq!(targets::unpack(&packed, &["a", "b"]), [("b", &b"xyz"[..]), ("a", b"")]);
    assert_eq!(targets::unpack(&packed[..4], &["a", "b"]), [("b", &b"x"[..])]);
}
