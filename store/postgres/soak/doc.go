// Package soak proves with real processes that sessions in PostgreSQL survive what happens to machines, networks and
// databases: no live run is cancelled, and no dead one is forgotten.
//
// Hosts and sweepers run in processes of their own. They reach a primary and its synchronous standby through proxies
// that delay, cut, hold and lose what passes. Hosts and sweepers are stopped and killed, servers are stopped, restarted
// and promoted, the clocks of the servers step, and strangers hold locks. A seeded schedule says which fault comes
// when. Each process keeps a journal of what it does and is told, which survives its end. Afterwards a judge compares
// the journals with the rows and the events, and counts what is wrong.
//
// One fault is two primaries: a standby is promoted while the old primary goes on serving some of the hosts and
// sweepers, and is fenced later. What it acknowledged meanwhile is lost, and no evidence. To all others its hosts were
// away. Of the primary that stays the judge asks what it asks without that fault.
//
// A host is live if it could write, and not if it ran. Of several soaks at once on two cores one had counted 11 live
// runs as cancelled, and a later one 62: no fault had hit their host, its journal had hardly a gap, and no connection
// of it came about. Each host has a witness now, which writes beside the library: that of the 62 had written nothing
// for eleven seconds, more than three promises. TestSimulation of sim checks what follows: a run is cancelled once
// its last written sign of life is older than the threshold, and else it is claimed back.
//
// A short form runs with `make long`, and as long a one as you like with `make soak`. Of the other tests those of its
// judge, its schedule and its proxies run alone.
//
// The package exports nothing, and needs Linux.
package soak
