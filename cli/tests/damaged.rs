//! What the program says about damaged datasets, forged models and refused threads: one line, and
//! exit code 2. That no damage causes a panic is tested through the library.

use std::fs;

use ignn::graph::GraphBuilder;
use ignn_format::random::Sequence;

use crate::handmade::path_and_loner;
use crate::sandbox::Sandbox;

#[test]
fn a_damaged_dataset_is_refused_by_every_command_that_uses_it() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let path = sandbox.path("d/relations/edges/in.neighbours.u32");
    let mut bytes = fs::read(&path).unwrap();
    bytes[64..].fill(0);
    fs::write(&path, bytes).unwrap();
    let commands: [&[&str]; 5] = [
        &["inspect", "d"],
        &["export", "d", "--edges", "e.csv"],
        &["bench", "sweep", "d", "--state", "4", "--seconds", "0"],
        &["bench", "sweep", "d", "--verify"],
        &["export", "d", "--ids", "i.csv", "--verify"],
    ];
    for command in commands {
        let run = sandbox.ignn(command).exits(2);
        let line = run.stderr.lines().last().unwrap_or_default();
        assert!(line.starts_with("error: d/relations/edges/in.neighbours.u32: checksum"), "{line}");
        assert!(
            line.ends_with("the dataset is damaged: `ignn check d` shows the details"),
            "{line}"
        );
    }
    // Without --verify, a part that is not damaged can be used.
    sandbox.ignn(&["export", "d", "--ids", "i.csv"]).exits(0);
}

#[test]
fn a_model_file_of_200_bytes_takes_no_memory() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let tensor = r#"{"dtype":"F32","shape":[1152921504606846976,0],"data_offsets":[0,0]}"#;
    let texts = r#"{"config":"","classes":"[]","labels":"single"}"#;
    let header = format!(r#"{{"__metadata__":{texts},"layer0.W":{tensor}}}"#);
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    sandbox.file("m.safetensors", bytes);
    sandbox.ignn(&["eval", "d", "--model", "m.safetensors"]).exits(2).fails_with(
        "m.safetensors: tensor layer0.W: shape (found [1152921504606846976, 0], expected at least \
         one number per row)",
    );
}

#[test]
fn too_many_threads_are_refused() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let run = sandbox.ignn(&["inspect", "d", "--threads", "20000"]).exits(2);
    assert!(run.stderr.starts_with("error: --threads 20000: too many (expected 1 to "));
    sandbox.ignn(&["inspect", "d", "--threads", "0"]).exits(2);
    sandbox.ignn(&["inspect", "d", "--threads", "64"]).exits(0);
}

/// The address space is limited to what the program needs, so that the stacks of 200 threads do not
/// fit. The limit on the number of processes does not apply to the superuser; that on memory does.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_the_system_refuses_are_an_error() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let program = sandbox.command(&[]).get_program().to_os_string();
    let expected = "error: the system refuses to start 200 threads: use fewer with --threads, or \
                    raise the limit (`ulimit -u`)";
    // A stack takes 2048 KiB: what is left after the last one is different each time.
    for limit in (300_000..302_048).step_by(256) {
        let line = format!("ulimit -v {limit} && exec \"$0\" inspect d --threads 200");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).arg(&program).current_dir(sandbox.path("."));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{limit}: {said}");
        assert!(said.starts_with(expected), "{limit}: {said}");
    }
}

/// Features of more than 16 MiB, so that they are not compared with their checksum by default.
#[test]
fn files_that_were_not_verified_are_named() {
    const COLUMNS: usize = 720_000;
    let sandbox = Sandbox::new();
    let mut random = Sequence::new(3, "features");
    // Bytes that cannot be compressed.
    let values = (0..6 * COLUMNS).map(|_| random.bits() as i32 as f32).collect();
    GraphBuilder::new(6)
        .edges([(0, 1), (1, 2), (3, 4), (4, 5)])
        .features(COLUMNS, values)
        .classes(["a", "b"], (0..6).map(|node| Some(node / 3)))
        .split([0, 3], [1, 4], [2, 5])
        .write(sandbox.path("d"))
        .unwrap();
    let ignn = |line: &str| sandbox.ignn(&line.split(' ').collect::<Vec<_>>()).exits(0);
    let train =
        "train d --out run --epochs 0 --set model.state=1 --set model.normalise_features=true";
    let said = "features/part-00000.parquet: --verify compares it with its checksum";
    let summary = |run: &str| -> serde_json::Value {
        serde_json::from_str(&sandbox.read(&format!("{run}/run.json"))).unwrap()
    };
    ignn(train).says(&format!("not verified: {said}\n"));
    let files = serde_json::json!(["features/part-00000.parquet"]);
    assert_eq!(summary("run")["dataset"]["not_verified"], files);
    let verified = ignn(&format!("{train} --force --verify --json")).json();
    assert_eq!(verified["not_verified"], serde_json::json!([]));
    assert_eq!(summary("run")["dataset"]["not_verified"], serde_json::json!([]));
    ignn("eval d --model run").says(&format!("not verified  {said}\n"));
    assert_eq!(ignn("eval d --model run --json").json()["not_verified"], files);
    let predict = "predict d --model run --out p.csv --force";
    ignn(predict).says(&format!("not verified  {said}\n"));
    let verified = ignn(&format!("{predict} --verify"));
    assert!(!verified.stdout.contains("not verified"), "{}", verified.stdout);
}
