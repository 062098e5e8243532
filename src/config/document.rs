//! `docs/config.md`, written from the schema.
//! It lays out what the schema says and adds how layers go on top of each other.

use std::fmt::Write;

use super::presets::PRESETS;
use super::schema::{self, Kind, SECTIONS};

const INTRODUCTION: &str = "# Configuration

Written by a test from the schema in `src/config/schema.rs`; change it there, then run
`IGNN_REWRITE=1 cargo test --lib config::document`.

A run is described by one TOML file. Whatever it leaves out comes from a preset or from the defaults below:

    defaults  <  --preset NAME  <  --config FILE.toml  <  --set section.key=value ...

`--set` may be repeated, the last one of a key counts; words need no quotes there and lists no brackets
(`--set optim.clip=tensor --set model.hidden=64,32`). Unknown keys, wrong types and values out of range are refused
with their place. The resolved configuration, all fields of it, is written with the run as `config.toml` and into the
model file.
";

const KINDS: &str = "
## Kinds of models

Every kind is trained on the same datasets by the same command, `--set model.kind=gcn`; its file serves `predict` and `eval`. Settings that a
kind has no use for are accepted and do nothing, so that a preset can be tried with any of them.

| `kind` | what it computes | settings of its own | last layer where nodes have the labels |
| --- | --- | --- | --- |
| `ignn` | equilibrium layers, as many as `state` has widths | `state`, `activation`, `input`, `bias`, `kappa`, `init`, `[solver]` | read-out |
| `gcn` | `depth` convolutions A^T x Omega^T + bias | `depth`, `state`, `activation`, `drop_edge` | logits |
| `sgc` | x Omega^T gathered `depth` times | `depth`, `drop_edge` | logits |
| `gat` | `depth` layers of attention over incoming edges; only which edges there are counts | `depth`, `heads`, `state`, `activation` | logits, one head |
| `gcnii` | `depth` convolutions that keep a share of their start | `depth`, `state`, `activation`, `gcnii_alpha`, `gcnii_lambda` | read-out |
| `sse` | `depth` damped steps an epoch towards a steady state, from that of the epoch before; predictions go on until it stands still | `depth`, `state`, `activation`, `sse_damping`, `[solver]` tolerance, max_sweeps, warm_start | read-out |
| `mlp` | `depth` linear maps; no edge is seen | `depth`, `state`, `activation` | logits |
| `structural` | the same, on degrees up to `hops` steps around a node instead of features | `depth`, `hops`, `state`, `activation` | logits |
| `label-propagation` | X = kappa / rho A^T X + labels of the training nodes; nothing is learned, no epoch is trained | `kappa`, `[solver]` | itself |

All but `label-propagation` follow `features`, `normalise_features`, `init_input`, `skip`, `between`, `batch_norm` (never of logits), `pooling` and `dropout`. Kinds without an
equilibrium drop entries before every layer, features included (`sse`: before the read-out only), and attention drops weights too. Where the last layer gives the logits,
`readout`, `hidden`, `head_bias` and `normalise_state` do nothing; where graphs have the labels, all layers are as wide as `state`, and pooling and a read-out follow.
`state` is one width, or for `gcn`, `gat`, `mlp` and `structural` one for each layer below the logits. Several relations are averaged by all kinds but `ignn`.
First values of Omega are uniform within `init_input` times sqrt(6 / (p + m)).
";

/// The whole document.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for (section, doc) in SECTIONS {
        let _ = write!(
            page,
            "\n## [{section}]\n\n{doc}\n\n| key | default | values | |\n| --- | --- | --- | --- |\n"
        );
        for field in schema::of_section(section) {
            let default = schema::literal(&field.default.value());
            let doc = field.doc.replace('|', "\\|");
            let _ = writeln!(
                page,
                "| `{}` | `{default}` | {} | {doc} |",
                field.key(),
                values(&field.kind)
            );
        }
    }
    page.push_str(KINDS);
    page.push_str("\n## Presets\n");
    for preset in PRESETS {
        let _ = write!(
            page,
            "\n`{}`: {}\n\n```toml\n{}\n```\n",
            preset.name,
            preset.doc,
            preset.text.trim()
        );
    }
    page
}

fn values(kind: &Kind) -> String {
    match kind {
        Kind::Word(words) => {
            words.iter().map(|word| format!("`{word:?}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Text => "text".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_document_says_what_the_schema_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.md");
        if std::env::var_os("IGNN_REWRITE").is_some() {
            fs::write(&path, markdown()).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == markdown(),
            "docs/config.md is out of date: run IGNN_REWRITE=1 cargo test --lib config::document"
        );
    }
}
