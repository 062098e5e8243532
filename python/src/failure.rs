//! Errors of the library as Python exceptions, with the messages of the command line.

use std::error::Error;
use std::io;

use ignn::FormatError;
use ignn::models::SavedError;
use ignn::predict::PredictError;
use ignn::run::RunError;
use ignn::train::TrainError;
use ignn_ingest::IngestError;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyOSError, PyPermissionError,
    PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(
    ignn,
    NotConverged,
    PyRuntimeError,
    "A solve did not reach its tolerance, where that was asked to be an error."
);

/// Why a job failed.
pub enum Failure {
    /// The library.
    Library(Box<ignn::Error>),
    /// Ingest.
    Ingest(Box<IngestError>),
    /// An argument that the library does not know of.
    Argument(String),
}

impl<E: Into<ignn::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Library(Box::new(error.into()))
    }
}

impl Failure {
    pub fn ingest(error: IngestError) -> Self {
        Self::Ingest(Box::new(error))
    }

    pub fn argument(message: impl Into<String>) -> Self {
        Self::Argument(message.into())
    }
}

/// Makes the exception of an error.
pub fn exception(failure: Failure) -> PyErr {
    match failure {
        Failure::Argument(message) => PyValueError::new_err(message),
        Failure::Ingest(error) => match &*error {
            IngestError::Format(format) => of_format(format, message(&*error)),
            _ => of_io(&*error).unwrap_or(PyValueError::new_err)(message(&*error)),
        },
        Failure::Library(error) => of_library(&error),
    }
}

type New = fn(String) -> PyErr;

fn of_library(error: &ignn::Error) -> PyErr {
    let text = message(error);
    match train_error(error) {
        Some(TrainError::NotConverged { .. }) => return NotConverged::new_err(text),
        Some(TrainError::Memory { .. }) => return PyMemoryError::new_err(text),
        _ => {}
    }
    match (format_error(error), error) {
        (Some(format), _) => of_format(format, text),
        (None, ignn::Error::Run(run)) if matches!(**run, RunError::NotARun { .. }) => {
            let RunError::NotARun { path, .. } = &**run else { return PyValueError::new_err(text) };
            if path.exists() {
                PyValueError::new_err(text)
            } else {
                PyFileNotFoundError::new_err(text)
            }
        }
        (None, _) => of_io(error).unwrap_or(PyValueError::new_err)(text),
    }
}

fn train_error(error: &ignn::Error) -> Option<&TrainError> {
    match error {
        ignn::Error::Train(train) => Some(train),
        ignn::Error::Run(run) => match &**run {
            RunError::Train(train) => Some(train),
            _ => None,
        },
        _ => None,
    }
}

/// The error about a file, in whichever error it is wrapped.
fn format_error(error: &ignn::Error) -> Option<&FormatError> {
    match error {
        ignn::Error::Format(format) | ignn::Error::Saved(SavedError::File(format)) => Some(format),
        ignn::Error::Predict(predict) => match &**predict {
            PredictError::File(format) | PredictError::Saved(SavedError::File(format)) => {
                Some(format)
            }
            _ => None,
        },
        ignn::Error::Run(run) => match &**run {
            RunError::File(format) | RunError::Train(TrainError::File(format)) => Some(format),
            RunError::Init(SavedError::File(format)) => Some(format),
            _ => None,
        },
        ignn::Error::Train(train) => match &**train {
            TrainError::File(format) => Some(format),
            _ => None,
        },
        _ => None,
    }
}

fn of_format(error: &FormatError, text: String) -> PyErr {
    match error {
        FormatError::Exists { .. } => PyFileExistsError::new_err(text),
        FormatError::NotADataset { path, .. } if !path.exists() => {
            PyFileNotFoundError::new_err(text)
        }
        other => of_io(other).unwrap_or(PyValueError::new_err)(text),
    }
}

/// The exception of the first error of the system among the causes.
fn of_io(error: &(dyn Error + 'static)) -> Option<New> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(system) = cause.downcast_ref::<io::Error>() {
            return Some(match system.kind() {
                io::ErrorKind::NotFound => PyFileNotFoundError::new_err,
                io::ErrorKind::PermissionDenied => PyPermissionError::new_err,
                io::ErrorKind::OutOfMemory => PyMemoryError::new_err,
                _ => PyOSError::new_err,
            });
        }
        next = cause.source();
    }
    None
}

/// The message with each cause once.
fn message(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let own = cause.to_string();
        if !text.contains(&own) {
            text = format!("{text}: {own}");
        }
        next = cause.source();
    }
    text
}
