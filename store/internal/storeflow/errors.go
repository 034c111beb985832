package storeflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/session"
)

var (
	// ErrClosed is the ErrClosed of each store.
	ErrClosed = errors.New("the event store is closed")
	// ErrUnreleasedSchema is the error of a database that was made before the first release.
	ErrUnreleasedSchema = errors.New("the database was made before the first release of this program, " +
		"which cannot use it: move it away, and a new one is made")
	// ErrNewerSchema is the ErrNewerSchema of each store.
	ErrNewerSchema = errors.New(
		"the database was written by a newer version of this program, and this one does not know its schema: " +
			"use the newer one")
	// ErrReadOnly is the ErrReadOnly of each store.
	ErrReadOnly = errors.New("the store was opened read-only, and writes nothing")
	// ErrNoTables is the error of a database that was opened read-only and has no events.
	ErrNoTables = errors.New("it has no table of events, and none is created: " +
		"name the database of a program that writes events, or open it once with such a program")
)

// OlderSchemaAdvice is what a person can do if a database that was opened read-only lacks what a call needs.
const OlderSchemaAdvice = "the schema is older than this program: open the database once with a program that writes"

// WrapError says what a store was doing, in which database it failed, and what a person can do about it. Empty advice
// is left out. WrapError returns nil for a nil error.
func WrapError(doing, database string, err error, advice string) error {
	switch {
	case err == nil:
		return nil
	case advice == "":
		return fmt.Errorf("%s event database %s: %w", doing, database, err)
	default:
		return fmt.Errorf("%s event database %s: %w (%s)", doing, database, err, advice)
	}
}

// JoinContext adds the context's error to an error that does not wrap it: when a context ends during a statement, a
// driver may only say "interrupted", and a server "canceling statement".
func JoinContext(ctx context.Context, err error) error {
	if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		return errors.Join(ended, err)
	}
	return err
}

// LeaseExpired is the error of a call for a lease that does not live.
func LeaseExpired(id string) error {
	return fmt.Errorf("%w: lease %s has expired, or there is none", session.ErrLeaseExpired, id)
}

// Locked wraps [session.ErrLocked], too, if a lock was not to be had in time.
func Locked(isLocked bool, err error) error {
	if isLocked {
		return fmt.Errorf("%w: %w", session.ErrLocked, err)
	}
	return err
}
