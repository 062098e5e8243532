//! `ignn generate`: writes a synthetic graph as a dataset, as raw files, or both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::manifest::Normalisation;
use ignn_format::storage::Staging;

use crate::builder::{self, DatasetSummary};
use crate::content::Content;
use crate::context::{Context, Unit};
use crate::edges::options::{RelationOptions, SelfLoops};
use crate::error::{IngestError, Result};
use crate::synthetic::chains::{Chains, ChainsOptions};
use crate::synthetic::grid::{Grid, GridOptions};
use crate::synthetic::ppi::{self, PpiOptions};
use crate::synthetic::ppi_raw;
use crate::synthetic::raw::{self, RAW};
use crate::synthetic::rings::{Rings, RingsOptions};
use crate::synthetic::rmat::{Rmat, RmatOptions};
use crate::synthetic::sbm::{Density, Sbm, SbmOptions};

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Directed chains whose class is only visible at their first node.
    Chains(ChainsOptions),
    /// Many graphs of the size and degree distribution of PPI.
    Ppi(PpiOptions),
    /// R-MAT. Self-loops are dropped, and every id is a node, with edges or without.
    Rmat(RmatOptions),
    /// Stochastic block model.
    Sbm(SbmOptions),
    /// Grid or torus.
    Grid(GridOptions),
    /// Rings with a number to predict.
    Rings(RingsOptions),
}

/// Options of `ignn generate`.
#[derive(Clone, Debug)]
pub struct Generate {
    /// What to generate.
    pub kind: Kind,
    /// The dataset directory to create.
    pub out: Option<PathBuf>,
    /// The directory of raw files to create.
    pub raw: Option<PathBuf>,
    /// Replace existing targets.
    pub force: bool,
    /// Normalisation of the dataset's matrix.
    pub normalise: Normalisation,
}

impl Generate {
    /// Runs the job; returns a result only if a dataset is written.
    pub fn run(&self, context: &Context) -> Result<Option<DatasetSummary>> {
        if self.out.is_none() && self.raw.is_none() {
            return Err(IngestError::Usage(
                "generate: nothing to write: pass --out DIR or --raw DIR".into(),
            ));
        }
        let targets = Targets {
            raw: self.raw.as_ref().map(|raw| self.claim_raw(raw)).transpose()?,
            out: self.out.as_ref().map(|out| builder::claim(out, self.force)).transpose()?,
        };
        match &self.kind {
            Kind::Chains(options) => {
                self.write(targets, &Chains::new(options, context.seed)?, context)
            }
            Kind::Rmat(options) => self.write(targets, &Rmat::new(options, context.seed)?, context),
            Kind::Sbm(options) => self.write(targets, &Sbm::new(options, context.seed)?, context),
            Kind::Grid(options) => self.write(targets, &Grid::new(options)?, context),
            Kind::Rings(options) => {
                self.write(targets, &Rings::new(options, context.seed)?, context)
            }
            Kind::Ppi(options) => {
                context.observer.phase("make graphs", None, Unit::Items("graphs"));
                let set = ppi::generate(options, context)?;
                if let (Some(staging), Some(graphs)) = (targets.raw, &set.graphs) {
                    context.observer.phase("write files", None, Unit::Items("files"));
                    ppi_raw::write(&set, graphs, staging.path())?;
                    raw::mark(staging.path())?;
                    staging.commit()?;
                }
                self.write_dataset(targets.out, &set, context)
            }
        }
    }

    fn claim_raw(&self, target: &Path) -> Result<Staging> {
        Ok(Staging::create(target, self.force.then_some(&RAW))?)
    }

    fn write(
        &self,
        targets: Targets,
        content: &dyn Content,
        context: &Context,
    ) -> Result<Option<DatasetSummary>> {
        if let Some(staging) = targets.raw {
            let edges = if matches!(self.kind, Kind::Rmat(_)) { "edges.txt" } else { "edges.tsv" };
            raw::write(content, context, staging.path(), edges)?;
            raw::mark(staging.path())?;
            staging.commit()?;
        }
        self.write_dataset(targets.out, content, context)
    }

    fn write_dataset(
        &self,
        target: Option<Staging>,
        content: &dyn Content,
        context: &Context,
    ) -> Result<Option<DatasetSummary>> {
        let Some(target) = target else {
            context.observer.finish();
            return Ok(None);
        };
        let (command, mut options) = self.kind.describe();
        options.insert("seed".into(), context.seed.to_string());
        let relation = self.kind.relation(self.normalise);
        let command = format!("generate {command}");
        builder::write(content, context, target, &command, options, &relation).map(Some)
    }
}

/// The outputs, both reserved before any work is done.
struct Targets {
    raw: Option<Staging>,
    out: Option<Staging>,
}

impl Kind {
    fn relation(&self, normalise: Normalisation) -> RelationOptions {
        let directed = match self {
            Self::Chains(_) => true,
            Self::Rmat(options) => options.directed,
            _ => false,
        };
        // Only R-MAT generates self-loops, and they are an artefact of the method.
        RelationOptions {
            directed,
            normalise,
            self_loops: SelfLoops::Drop,
            ..RelationOptions::default()
        }
    }

    /// Name of the subcommand, and its options.
    fn describe(&self) -> (&'static str, BTreeMap<String, String>) {
        let (name, options): (_, Vec<(&str, String)>) = match self {
            Self::Chains(o) => (
                "chains",
                vec![
                    ("classes", o.classes.to_string()),
                    ("chains", o.chains.to_string()),
                    ("length", o.length.to_string()),
                    ("features", o.features.to_string()),
                    ("train", o.train.to_string()),
                    ("val", o.val.to_string()),
                    ("test", o.test.to_string()),
                ],
            ),
            Self::Ppi(o) => {
                ("ppi", vec![("scale", o.scale.to_string()), ("restart", o.restart.to_string())])
            }
            Self::Rmat(o) => (
                "rmat",
                vec![
                    ("scale", o.scale.to_string()),
                    ("edges", o.edges.map_or_else(|| "auto".into(), |edges| edges.to_string())),
                    ("edge_factor", o.edge_factor.to_string()),
                    ("quarters", join(&o.quarters)),
                    ("permute", o.permute.to_string()),
                    ("directed", o.directed.to_string()),
                ]
                .into_iter()
                .chain((o.labels > 0).then(|| ("labels", o.labels.to_string())))
                .chain((o.labels > 0).then(|| ("classes", o.classes.to_string())))
                .collect(),
            ),
            Self::Sbm(o) => {
                let (density, within, between) = match o.density {
                    Density::Degrees { within, between } => ("degrees", within, between),
                    Density::Probabilities { within, between } => {
                        ("probabilities", within, between)
                    }
                };
                (
                    "sbm",
                    vec![
                        ("nodes", o.nodes.to_string()),
                        ("blocks", o.blocks.to_string()),
                        (density, join(&[within, between])),
                        (
                            "features",
                            o.features.map_or_else(|| "auto".into(), |columns| columns.to_string()),
                        ),
                        ("noise", o.noise.to_string()),
                        ("fractions", join(&o.fractions)),
                    ],
                )
            }
            Self::Grid(o) => (
                "grid",
                vec![
                    ("rows", o.rows.to_string()),
                    ("columns", o.columns.to_string()),
                    ("torus", o.torus.to_string()),
                    ("coordinates", o.coordinates.to_string()),
                ],
            ),
            Self::Rings(o) => (
                "rings",
                vec![
                    ("rings", o.rings.to_string()),
                    ("length", o.length.to_string()),
                    ("decay", o.decay.to_string()),
                    ("noise", o.noise.to_string()),
                    ("by-graph", o.by_graph.to_string()),
                ],
            ),
        };
        (name, options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

fn join(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;

    fn generate(kind: Kind, raw: Option<PathBuf>) -> Result<Option<DatasetSummary>> {
        let context =
            Context { threads: 2, memory: 1 << 30, seed: 1, observer: &Recorder::default() };
        Generate { kind, out: None, raw, force: false, normalise: Normalisation::Renorm }
            .run(&context)
    }

    #[test]
    fn raw_directories_appear_complete_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let kinds = [
            Kind::Chains(ChainsOptions::default()),
            Kind::Ppi(PpiOptions { scale: 0.08, ..PpiOptions::default() }),
            Kind::Rmat(RmatOptions { scale: 8, ..RmatOptions::default() }),
            Kind::Sbm(SbmOptions { nodes: 500, ..SbmOptions::default() }),
            Kind::Grid(GridOptions::default()),
            Kind::Rings(RingsOptions::default()),
        ];
        for kind in kinds {
            let target = dir.path().join(kind.describe().0);
            assert!(generate(kind.clone(), Some(target.clone())).unwrap().is_none());
            assert!(std::fs::read_dir(&target).unwrap().count() >= 1);
            let error = generate(kind, Some(target)).unwrap_err().to_string();
            assert!(error.contains("already exists"), "{error}");
        }
        let bad = Kind::Grid(GridOptions { rows: 0, ..GridOptions::default() });
        assert!(generate(bad, Some(dir.path().join("bad"))).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 6);
        let error = generate(Kind::Grid(GridOptions::default()), None).unwrap_err().to_string();
        assert_eq!(error, "generate: nothing to write: pass --out DIR or --raw DIR");
    }
}
