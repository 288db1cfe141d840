// Package node is one machine's memory, wired: start here.
//
// A [Node] joins what the packages below do not know of each other:
//
//	sources ── turns ──> index ──> log and views ──> answers (cmd, mcp, hooks)
//	peers ─── syncproto ──> index
//
// [Open] reads who the node is. [Node.Refresh] reads what changed in the
// harnesses' stores. [Node.Memory] answers. [Node.Sync] exchanges with peers
// and [Node.Serve] is the other end of it.
package node
