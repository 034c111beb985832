//go:build ignore

package sqlite_test

import (
	"testing"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
)

func TestSessions(t *testing.T) {
	inEachSetup(t, func(t *testing.T, open func(t *testing.T) putter) {
		sessiontest.Run(t, func(t *testing.T) session.Store { return open(t) })
	})
}
