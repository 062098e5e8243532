//! The ranks of a job: processes that `mpirun` has started together. The first one prints; the
//! others compute, and are silent.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use ignn::parallel::{Alone, Ranks};

use crate::terminal::messages;

/// Time that a rank with an error gives the others to report the same.
#[cfg(feature = "mpi")]
const TOGETHER: std::time::Duration = std::time::Duration::from_secs(5);

/// Variables of Open MPI, MPICH and PMIx with the number of a rank, and of all ranks.
const VARIABLES: [[&str; 2]; 3] = [
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["PMIX_RANK", "SLURM_NTASKS"],
];

/// This rank and the number of ranks, if a launcher of MPI started this process.
pub fn launched() -> Option<[usize; 2]> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    VARIABLES.iter().find_map(|[rank, size]| Some([number(rank)?, number(size)?]))
}

/// Numbers of ranks on this machine, of the same launchers.
const BESIDE: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"];

/// The number of ranks of this job on this machine, as far as the launcher tells.
pub fn on_this_machine() -> u64 {
    // Slurm lists all machines: `4(x2),3`.
    let first = |text: String| text.split(['(', ',']).next().and_then(|first| first.parse().ok());
    let known = BESIDE.iter().find_map(|name| first(std::env::var(name).ok()?));
    if launched().is_some() { known.unwrap_or(1).max(1) } else { 1 }
}

/// The ranks of this job, from its start to its end.
pub struct Job {
    #[cfg(feature = "mpi")]
    mpi: Option<ignn::parallel::Mpi>,
    ranks: Arc<dyn Ranks>,
}

impl Job {
    /// Joins the other ranks, if there are any.
    #[cfg(feature = "mpi")]
    pub fn start() -> Result<Self> {
        let mpi = launched().and_then(|_| ignn::parallel::Mpi::start());
        let ranks = mpi.as_ref().map_or_else(Alone::shared, ignn::parallel::Mpi::ranks);
        let expected = launched().map_or(1, |[_, size]| size);
        if ranks.size() != expected {
            bail!(
                "mpirun has started {expected} ranks, but MPI sees {}: use the mpirun of the MPI that \
                 this program was built with",
                ranks.size()
            );
        }
        Ok(Self { mpi, ranks })
    }

    /// Refuses to be one of several processes that know nothing of each other.
    #[cfg(not(feature = "mpi"))]
    pub fn start() -> Result<Self> {
        if let Some([_, size]) = launched().filter(|[_, size]| *size > 1) {
            bail!(
                "started as one of {size} ranks, but built without MPI: build with \
                 `cargo build --release -p ignn-cli --features mpi`"
            );
        }
        Ok(Self { ranks: Alone::shared() })
    }

    /// The ranks.
    pub fn ranks(&self) -> &Arc<dyn Ranks> {
        &self.ranks
    }

    /// Prints an error, once for all ranks, and returns the exit code: that of the rank whose error it
    /// was first. A rank that is alone with its error ends the job.
    pub fn report(&self, error: &anyhow::Error) -> u8 {
        messages::print_error(error);
        let code = messages::code(error);
        #[cfg(feature = "mpi")]
        if let Some(mpi) = &self.mpi {
            if mpi.end_together(TOGETHER) {
                // Those that only repeat the error of another rank have a code of 2.
                return self.ranks.gather(vec![code]).concat().into_iter().min().unwrap_or(code);
            }
            if !self.ranks.is_first() {
                crate::terminal::printer::set_silent(false);
                messages::print_error(error);
            }
            mpi.abort(code.into());
        }
        code
    }
}

/// Before arguments are refused: a rank that is alone with its refusal ends the job.
pub fn refuse_together(error: &clap::Error) {
    #[cfg(feature = "mpi")]
    if error.exit_code() != 0
        && launched().is_some_and(|[_, size]| size > 1)
        && let Some(mpi) = ignn::parallel::Mpi::start()
        && !mpi.end_together(TOGETHER)
    {
        crate::terminal::printer::set_silent(false);
        crate::terminal::printer::styled_message(&error.render());
        mpi.abort(error.exit_code());
    }
    #[cfg(not(feature = "mpi"))]
    let _ = error;
}

/// Refuses ranks that were started with different arguments; all call it together.
pub fn check_arguments(ranks: &dyn Ranks, own: String) -> Result<()> {
    if ranks.is_alone() {
        return Ok(());
    }
    let all = ranks.gather(own.into_bytes());
    match all.iter().position(|arguments| *arguments != all[0]) {
        None => Ok(()),
        Some(rank) => bail!(
            "rank {rank} was started with other arguments than rank 0: give all ranks the same, but \
             for --threads and --memory"
        ),
    }
}

/// The result of this rank, or the error of another one.
pub fn agree<T>(ranks: &dyn Ranks, result: Result<T>) -> Result<T> {
    let words = match &result {
        Ok(_) => Ok(()),
        Err(error) => Err(messages::full_message(error)),
    };
    match ranks.agree(words, |message| message) {
        Ok(()) => result,
        Err(message) => result.and_then(|_| Err(anyhow!(message))),
    }
}
