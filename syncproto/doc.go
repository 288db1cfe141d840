// Package syncproto is how two nodes exchange their logs: DEJA-SYNC/2, whose
// bytes PROTOCOL.md describes with a worked example, and the mirror of a
// mailbox.
//
// The receiver says what it lacks, so nothing that a sender remembers can lose
// data; both directions run at once; what was accepted is acknowledged only
// when it is durable; a cut at any byte costs one batch of resending at most.
//
// Start at [Session]. It is a pure step function: frames in, frames out, and
// no socket, file, clock or goroutine of its own. [Run] drives one over a
// [Link], [Mirror] exchanges with a [Box], and both ask the node through
// [Store], which is where policy and storage live.
package syncproto
