// Package peers keeps the book of the machines a node syncs with: peers.json,
// how a name that a user types finds a row, what a row learns about the node
// behind it, and the live state of each peer.
//
// Start at [Load] and [Update] for the book, [Book.Find] for names,
// [Book.Learn] for what an authenticated HELLO says, [ParseHost] for an
// address that a user types, and [LoadState] for times, errors and waits.
//
// Fields of peers.json that this version does not know are kept when the file
// is written, those of the book as well as those of a row.
package peers
