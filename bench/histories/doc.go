// Package histories has a judge that is not ours check the stores: github.com/anishathalye/porcupine looks for an
// order of all calls in which each of them happened at one moment between its begin and its answer, as the model of
// the object says. The histories are those of real processes, on PostgreSQL and on SQLite, that are killed, stopped and
// cut off from their database meanwhile. A call without an answer may have happened at any later moment, or never.
//
// Each history is about one session, which is its row with the ends that are stored of its windows and the leases that
// it is in, one after the other, with what they are to be told. No other run is in the leases of one, and none is begun
// twice.
//
// TestBoth has both stores do what asks for SQL of another program: to share tables, indexes, rows and clocks with it.
//
// All of it is tests, in a module that is not published: what the judge requires is required by nobody else. Nothing
// here measures a time. What a fleet with sweepers, keepers and a failing server does is soaked in
// store/postgres/soak.
package histories
