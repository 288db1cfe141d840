package hooks

import (
	"context"
	"time"

	"github.com/deja-node/deja/hooks/host"
)

// startSessions is how many sessions a session start recalls at most.
const startSessions = 3

// SessionStart recalls what was done last in the project of the new session.
func SessionStart(ctx context.Context, m Memory, e host.Event, now time.Time) (string, error) {
	recent, err := m.Recent(ctx, e.Cwd, e.Session, startSessions)
	if err != nil {
		return "", err
	}
	return render("Earlier sessions in this project, newest first:", recent, StartBudget, now), nil
}
