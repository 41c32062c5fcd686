//! A projection of a file as a new version, to be built beside the old one.

use crate::file::{File, Problem, Problems, Set};
use crate::sql::Compiler;
use anabranch::{Log, ReplicaSet};

/// A projection of a file, as the new version of one that exists.
#[non_exhaustive]
pub struct RebuildSet {
    /// Builds it, beside the old one or, when that was switched, under its own name.
    pub set: ReplicaSet,
    /// The tables that it writes.
    pub tables: Vec<String>,
    /// Its version.
    pub version: u32,
}

impl RebuildSet {
    /// The projection of this name. Refused where a new version could not have tables of its own.
    pub fn of(file: &File, log: &Log, consumer: &str) -> Result<Self, Problems> {
        let refused = |problem| Problems::one(&file.source, problem);
        let found = file.consumers().find(|(_, name)| name.text == consumer);
        let Some((set, name)) = found else {
            let names: Vec<&str> = file.consumers().map(|(_, name)| name.text.as_str()).collect();
            let said = format!("the file has no consumer `{consumer}`");
            return Err(refused(
                Problem::new(0..0, said).help(format!("it has {}", names.join(", "))),
            ));
        };
        let is_it = |one: &&crate::file::Projection| one.consumer.name.text == consumer;
        let Some(projection) = set.projections.iter().find(is_it) else {
            if set.webhooks.iter().any(|one| one.consumer.name.text == consumer) {
                let said =
                    format!("`{consumer}` is a webhook, which has no tables to be built anew");
                let help = "`--accept` the new code; `anabranch replay` sends again what was sent";
                return Err(refused(Problem::new(name.span.clone(), said).help(help)));
            }
            let said = format!(
                "`{consumer}` is a program or a pool, which sends its own SQL, so a new version of it would write the \
                 tables of the old one"
            );
            let help = "give it a new name and new tables; or `--accept` the new code, and replay it with a `reset`";
            return Err(refused(Problem::new(name.span.clone(), said).help(help)));
        };
        if projection.consumer.tables.is_empty() {
            let said = format!("`{consumer}` does not say which tables it writes");
            let help = format!(
                "add tables = [\"{consumer}\"] to it and write {{{consumer}}} wherever its statements name the table; \
                 or `--accept` the new code, and replay it with a `reset`"
            );
            return Err(refused(Problem::new(name.span.clone(), said).help(help)));
        }
        Self::made(file, log, set, projection)
    }

    fn made(
        file: &File,
        log: &Log,
        of: &Set,
        projection: &crate::file::Projection,
    ) -> Result<Self, Problems> {
        let database = log.database();
        let mut compiler = Compiler::new(&file.source, Some(database.dialect().name()));
        let mut compiled = compiler.projection(projection);
        let code = compiled.code(compiler.lexical());
        Problems::none_in(&file.source, compiler.problems)?;
        compiled.settings = compiled.settings.retry(projection.consumer.retry).code(code);
        let set = ReplicaSet::new(of.name.text.as_str())
            .lanes(of.lanes)
            .tuning(of.tuning)
            .rollout(of.rollout)
            .grace(of.grace)
            .rebuild(compiled);
        let tables = projection.consumer.tables.iter().map(|table| table.text.clone()).collect();
        Ok(Self { set, tables, version: projection.consumer.version })
    }
}
