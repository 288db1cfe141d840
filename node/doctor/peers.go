package doctor

import (
	"context"
	"fmt"
	"math"

	"github.com/deja-node/deja/node"
)

// maxSkew is how far a peer's clock may be off before it is said, in seconds.
const maxSkew = 120

// peers says how far each peer is.
func peers(ctx context.Context, n *node.Node, opt Options, r *Report) {
	rows, err := n.Peers(ctx)
	if err != nil {
		r.add("peers", Broken, err.Error(), "")
		return
	}
	found := false
	for _, p := range rows {
		if opt.Peer != "" && p.Host != opt.Peer && p.Name != opt.Peer && p.Node != opt.Peer {
			continue
		}
		found = true
		r.Peers = append(r.Peers, p)
		subject := "peer " + p.Host
		switch p.State {
		case node.PeerFailing:
			r.add(subject, Attention, "the last attempt failed: "+p.LastError, "deja sync "+p.Host)
		case node.PeerStale:
			r.add(subject, Attention, "no exchange for more than a week", "deja sync "+p.Host)
		case node.PeerNever:
			if p.Via != "listen" {
				r.add(subject, Attention, "no exchange yet", "deja sync "+p.Host)
			}
		}
		if math.Abs(p.ClockSkew) > maxSkew {
			r.add(subject, Attention, fmt.Sprintf("its clock is off by %.0f s", p.ClockSkew), "")
		}
	}
	if opt.Peer != "" && !found {
		r.add("peer "+opt.Peer, Broken, "no such peer", "deja peer list")
	}
}
