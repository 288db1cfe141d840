// Package index is one node's memory: the write gate, the read gate, and the
// logs and views between them.
//
// [Writer] is the only way into the log: it applies policy, scrubs, numbers
// and de-duplicates, appends, and folds the same entries into the views.
// [Memory] is the only way out: it applies policy, drops what is dead, ranks
// and cuts. One process writes at a time; any number read and never wait.
//
// The log is the database of record. The views are folds over it that can be
// thrown away: catching up after a sync, an append and a rebuild are one
// function, [Writer.CatchUp].
package index
