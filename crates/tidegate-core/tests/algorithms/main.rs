//! Every way of counting against a naive exact model.
//!
//! A model keeps a log of what was spent when and works out every answer from it, in arithmetic that cannot
//! round. Random plans of takes, debts, refunds, waits and changed limits run through both; after each step
//! the algorithm must count as the model does, and its answers must agree with one another.

mod bucket;
mod calendar;
mod fixed;
mod in_flight;
mod model;
mod paced;
mod sliding;
