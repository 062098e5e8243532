//! A model put on datasets by hand.
