package session

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Lister is a [Store] that lists sessions, for a page or a command line to show them. The stores of this module are
// Listers.
type Lister interface {
	// List returns sessions, those that were made last first; run IDs, the largest first, order those made at the same
	// time. How long the call takes depends on how many sessions it returns, and on how many it passes over that the
	// query's conditions leave out.
	List(ctx context.Context, q ListQuery) (ListPage, error)
}

// A ListQuery says which sessions to list. The conditions that are not empty must all hold.
type ListQuery struct {
	// Live wants only sessions that are [Active], Ended only the others. With both, or neither, all are wanted.
	Live, Ended bool
	// Parent, Host and Reason are those of the session. [ReasonFailed] wants those that [Session.Failed], and "complete"
	// wants those that are complete and have not.
	Parent, Host string
	Reason       watchdog.StopReason
	// Limit is the largest number of sessions to return, at least 1. After is where the page begins: the
	// [ListPage].Next of the page before, empty for the first.
	Limit int
	After string
}

// Validate returns an error if the limit is less than 1. The List of every store calls it.
func (q ListQuery) Validate() error { return validateLimit("list sessions", q.Limit) }

// A ListPage is a page of a list of sessions.
type ListPage struct {
	Sessions []Session
	// Now is the database's time at the query.
	Now time.Time
	// Next begins the next page; empty if this is the last.
	Next string
	// Unreadable are errors that wrap [ErrUnreadable], of rows that would be on this page.
	Unreadable []error
}
