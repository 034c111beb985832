// Package notify tells a receiver of the ends of runs: a [Sender] takes notices from a [session.Outbox] and posts each
// to a webhook, signed, at least once.
//
//	sender, err := notify.New(store, store, notify.Config{URL: url, Secrets: []string{secret}})
//	if err != nil { return err }
//	err = sender.Run(ctx) // until ctx ends
//
// A store puts the end of each window into its outbox in the transaction that stores the end event: open it with
// Outbox. Whatever process does that, somebody has to run a Sender; any number may run at once, in any number of
// processes, with the same [Config].
//
// # What is sent
//
// Each notice is one POST of a small JSON object: its type, its ID, the run and the run around it, the stop code, the
// limit, and how long it took. It has no content of the run: no last note, hold, tool or scope, no text of the host.
// The headers are those of the Standard Webhooks specification, webhook-id, webhook-timestamp and webhook-signature:
// a receiver can use any of its libraries, and one in Go can use [Verify]. A notice keeps its ID and its body at each
// try: a receiver that may not act twice remembers IDs.
//
// # When it is not taken
//
// An answer from 200 to 299 in time is a delivery. Anything else is not, redirects included, which are not followed:
// the notice is tried again after 5 seconds, then after pauses that double up to an hour, or when a Retry-After of at
// most an hour says so. After a 410 Gone or a Retry-After nothing is sent at all until then. A notice whose pauses are
// longer in all than [Config].KeepFor, and an hour more, is dropped after its next failure, and the log says so. No
// clock has a say in it: one that was wrong when a notice was put drops none early, and keeps none for long.
//
// # What it does not do
//
// It keeps no order, and does not know what a receiver did with a notice. It never ends a run.
package notify
