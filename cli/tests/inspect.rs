//! `ignn inspect`: numbers that can be counted by hand.

use std::fs;

use ignn_format::labels::Labels;
use ignn_format::manifest::{Manifest, Normalisation};
use ignn_format::splits::{NO_PART, Split};

use crate::handmade::{Handmade, path_and_loner, weighted_chain};
use crate::sandbox::Sandbox;

#[test]
fn an_undirected_path_with_an_isolated_node() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let found = sandbox.ignn(&["inspect", "d", "--json"]).exits(0).json();
    let relation = &found["relations"][0];
    assert_eq!((&found["nodes"], &relation["name"]), (&4.into(), &"edges".into()));
    assert_eq!(relation["edges"], 2);
    let statistics = &relation["statistics"];
    assert_eq!(
        (&statistics["components"], &statistics["largest_component"]),
        (&2.into(), &3.into())
    );
    assert_eq!((&statistics["isolated"], &statistics["self_loops"]), (&1.into(), &0.into()));
    assert_eq!((&statistics["symmetric"], &statistics["acyclic"]), (&true.into(), &false.into()));
    assert_eq!(statistics["degrees"]["histogram"], serde_json::json!([1, 2, 1]));
    let spectral = &relation["spectral"];
    assert_eq!((&spectral["structure"], &spectral["sweeps"]), (&"renormalised".into(), &0.into()));
    let rho = spectral["rho"].as_f64().unwrap();
    assert!((rho - 1.0).abs() < 1e-6 && spectral["lower"].as_f64().unwrap() <= rho);
    assert_eq!(spectral["kappa"], 0.9);
    let radius = spectral["weight_radius"].as_f64().unwrap();
    assert!(radius * rho <= 0.9 && radius * rho > 0.899_999);
    assert_eq!(found["training_memory"][0]["width"], 64);
    assert_eq!(found["bytes_on_disk"]["relation edges"], 64 + 40 + 64 + 32 + 64 + 16);
}

#[test]
fn a_plan_for_ranks_counts_ghosts_and_what_is_sent() {
    let sandbox = Sandbox::new();
    // A path of 40 nodes. Ranks are cut at multiples of 16 nodes.
    let names: Vec<String> = (0..40).map(|i| format!("{i:02}")).collect();
    let ids: Vec<&str> = names.iter().map(String::as_str).collect();
    let entries: Vec<_> = (0..39).flat_map(|i| [(i, i + 1, 1.0), (i + 1, i, 1.0)]).collect();
    let normalisation = Normalisation::None;
    Handmade { ids: &ids, entries: &entries, normalisation, scale: None, ..path_and_loner() }
        .write(&sandbox.path("d"));
    let run = sandbox.ignn(&["inspect", "d", "--ranks", "2", "--json"]).exits(0).json();
    let numbers = |name: &str| -> Vec<u64> {
        run["ranks"].as_array().unwrap().iter().map(|rank| rank[name].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers("rows"), numbers("ghosts")), (vec![16, 24], vec![1, 1]));
    assert_eq!((numbers("nonzeros"), numbers("sent")), (vec![31, 47], vec![1, 1]));
    assert_eq!(run["ranks"][0]["widths"][0]["exchange_bytes"], 64 * 4);
    // More ranks than there are rows to cut: the others have none.
    let run = sandbox.ignn(&["inspect", "d", "--ranks", "5", "--json"]).exits(0).json();
    let rows = run["ranks"].as_array().unwrap().iter().map(|rank| rank["rows"].as_u64().unwrap());
    assert_eq!(rows.sum::<u64>(), 40);
    sandbox.ignn(&["inspect", "d", "--ranks", "2"]).exits(0).says("\n2 ranks\n");
    sandbox.ignn(&["inspect", "d", "--ranks", "0"]).exits(2);
    // One row in each direction, and agreeing on a maximum. 47 gathered rows with their numbers, and
    // three of each of 24.
    let network = ["--bandwidth", "1", "--latency", "1", "--sweep-rate", "1"];
    let options = [&["inspect", "d", "--ranks", "2"][..], &network].concat();
    let run = sandbox.ignn(&[&options[..], &["--json"]].concat()).exits(0).json();
    let predicted = &run["predicted"][0]["seconds"];
    let close = |found: &serde_json::Value, expected: f64| {
        assert!((found.as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{found}");
    };
    close(&predicted["exchange"], 256e-9 + 2e-6);
    close(&predicted["sweep"], (47.0 * 260.0 + 72.0 * 256.0) * 1e-9);
    sandbox.ignn(&options).exits(0).says("predicted, per sweep");
    sandbox.ignn(&["inspect", "d", "--bandwidth", "1"]).exits(2);
}

#[test]
fn the_text_report() {
    let sandbox = Sandbox::new();
    let classes = vec!["red".to_string(), "blue".to_string()];
    let split = Split {
        name: "default".into(),
        parts: vec!["train".into(), "test".into()],
        of: vec![0, 1, NO_PART, 0],
    };
    let dataset = Handmade {
        labels: Some(Labels::Single { classes, of: vec![0, 1, 1, -1] }),
        splits: vec![split],
        ..path_and_loner()
    };
    dataset.write(&sandbox.path("d"));
    let run = sandbox.ignn(&["inspect", "d"]).exits(0);
    let bar = "█".repeat(40);
    let half = "█".repeat(20);
    let expected = format!(
        "d
  made by   hand, test
  nodes     4, order none
  features  none
  labels    2 classes, 3 labelled nodes, largest blue (2), smallest red (1)
  split     default: train 2, test 1

relation edges
  edges           2, undirected
  matrix          8 non-zeros, unweighted, renormalised
  self-loops      0
  isolated nodes  1 (25.0 %)
  components      2, the largest of 3 nodes (75.0 %)
  symmetric       yes
  DAG             no
  spectral bound  1 (closed form: renormalised)
  rows of W       L1 norm at most 0.9 at kappa 0.9 (kappa divided by the spectral bound)
  degree: 0 to 2, mean 1.00
    0    1  {half}
    1    2  {bar}
    2-3  1  {half}

on disk
"
    );
    assert!(run.stdout.starts_with(&expected), "{}\nexpected\n{expected}", run.stdout);
    let run = run.says("memory needed for training (estimate)").says("width 128");
    assert_eq!(run.stderr, "");
}

#[test]
fn a_directed_chain_is_a_dag_until_it_has_a_loop() {
    let sandbox = Sandbox::new();
    let entries = [(0, 1, 2.0), (1, 2, 0.5), (0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0)];
    Handmade { entries: &entries, ..weighted_chain() }.write(&sandbox.path("chain"));
    weighted_chain().write(&sandbox.path("loop"));
    let plain = Handmade { normalisation: Normalisation::None, scale: None, ..weighted_chain() };
    plain.write(&sandbox.path("plain"));
    for (name, loops, edges, acyclic) in
        [("chain", 0, 2, true), ("loop", 1, 3, false), ("plain", 3, 5, false)]
    {
        let found = sandbox.ignn(&["inspect", name, "--json"]).exits(0).json();
        let relation = &found["relations"][0];
        assert_eq!(relation["edges"], edges, "{name}");
        assert_eq!(relation["statistics"]["self_loops"], loops, "{name}");
        assert_eq!(relation["statistics"]["acyclic"], acyclic, "{name}");
        assert_eq!(relation["statistics"]["symmetric"], false, "{name}");
    }
    sandbox.ignn(&["inspect", "chain"]).exits(0).says("in-degree").says("out-degree");
}

#[test]
fn the_spectral_bound_is_reported_with_its_origin() {
    let sandbox = Sandbox::new();
    let plain = Handmade {
        normalisation: Normalisation::None,
        scale: None,
        symmetric: false,
        weighted: true,
        ..path_and_loner()
    };
    // A cycle of four edges of weight 2; the same without its last edge; an undirected path
    // with spectral radius sqrt(2).
    let cycle = [(0, 1, 2.0), (1, 2, 2.0), (2, 3, 2.0), (3, 0, 2.0)];
    let path = [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)];
    let cases = [
        (
            &cycle[..],
            "regular",
            2.0,
            "2 (closed form: equal row sums)",
            "at most 0.45 at kappa 0.9",
        ),
        (
            &cycle[..3],
            "acyclic",
            0.0,
            "0 (no cycle)",
            "no limit: without cycles every W is well-posed",
        ),
        (&path[..], "general", 2f64.sqrt(), "(power iteration, ", "L1 norm at most 0.6363"),
    ];
    for (at, (entries, structure, rho, how, radius)) in cases.into_iter().enumerate() {
        let name = format!("d{at}");
        Handmade { entries, labels: None, splits: Vec::new(), ..plain }.write(&sandbox.path(&name));
        let found = sandbox.ignn(&["inspect", &name, "--json"]).exits(0).json();
        let spectral = &found["relations"][0]["spectral"];
        assert_eq!(spectral["structure"], structure);
        let found = spectral["rho"].as_f64().unwrap();
        assert!(found >= rho - 1e-12 && found <= rho * (1.0 + 2e-4), "{found} {rho}");
        assert_eq!(spectral["weight_radius"].is_null(), rho == 0.0);
        sandbox.ignn(&["inspect", &name]).exits(0).says(how).says(radius);
    }
    sandbox
        .ignn(&["help", "inspect"])
        .exits(0)
        .says("an upper bound of the spectral radius")
        .says("kappa / bound");
}

#[test]
fn damage_is_an_error_not_a_panic() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let path = sandbox.path("d/relations/edges/in.neighbours.u32");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() = 1;
    fs::write(&path, &bytes).unwrap();
    let message = "d/relations/edges/in.neighbours.u32: checksum (found 80ce38cebe3d19f0, expected \
                   c7067cb73e720040): the dataset is damaged: `ignn check d` shows the details";
    sandbox.ignn(&["inspect", "d"]).fails_with(message);
    bytes.truncate(70);
    fs::write(&path, &bytes).unwrap();
    let run = sandbox.ignn(&["inspect", "d"]).exits(2);
    assert!(
        run.stderr.starts_with("error: d/relations/edges/in.neighbours.u32: "),
        "{}",
        run.stderr
    );
    assert_eq!(sandbox.names(), ["d"]);
}

#[test]
fn counts_of_the_manifest_are_not_trusted() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "0 1\n1 2\n2 3\n");
    sandbox.file("x.csv", "node,a,b\n0,1,0\n1,0,2\n2,0,0\n3,0,1\n");
    sandbox.file("s.csv", "node,split\n0,train\n1,test\n");
    sandbox.file(
        "x.mtx",
        "%%MatrixMarket matrix coordinate real general\n4 9 3\n1 1 1\n2 9 1\n4 2 1\n",
    );
    let forged = |features: &str, forge: fn(&mut Manifest)| {
        let line =
            format!("ingest edges e.txt --features {features} --splits s.csv --out d --force");
        sandbox.ignn(&line.split(' ').collect::<Vec<_>>()).exits(0);
        sandbox.ignn(&["inspect", "d"]).exits(0);
        let mut manifest = Manifest::read(&sandbox.path("d")).unwrap();
        forge(&mut manifest);
        fs::write(sandbox.path("d/manifest.json"), manifest.to_text()).unwrap();
        sandbox.ignn(&["inspect", "d"])
    };
    forged("x.csv", |manifest| manifest.features.as_mut().unwrap().columns = 700).fails_with(
        "d/features/part-00000.parquet: shape (found 8 values in 4 rows, expected rows of 700 \
         values)",
    );
    forged("x.mtx", |manifest| manifest.features.as_mut().unwrap().columns = 7).fails_with(
        "d/features/part-00000.parquet: row group 0, row 1: column (found 8, expected less than 7)",
    );
    forged("x.mtx", |manifest| manifest.features.as_mut().unwrap().nonzeros = Some(5))
        .fails_with("d/features: number of values (found 3, expected 5)");
    let run = forged("x.csv", |manifest| manifest.splits[0].parts[0].1 = 3).exits(2);
    assert!(run.stderr.starts_with("error: d/splits.parquet: "), "{}", run.stderr);
}
