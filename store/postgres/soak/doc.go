// Package soak proves with real processes that sessions in PostgreSQL survive what happens to machines, networks and
// databases: no live run is cancelled, and no dead one is forgotten.
//
// Hosts and sweepers run in processes of their own. They reach a primary and its synchronous standby through proxies
// that delay, cut, hold and lose what passes. Hosts and sweepers are stopped and killed, servers are stopped, restarted
// and promoted, the clocks of the servers step, and strangers hold locks. A seeded schedule says which fault comes
// when. Each process keeps a journal of what it does and is told, which survives its end. Afterwards a judge compares
// the journals with the rows and the events, and counts what is wrong.
//
// The short form runs with the other tests. `make soak` runs the long one.
//
// The package exports nothing, and needs Linux.
package soak
