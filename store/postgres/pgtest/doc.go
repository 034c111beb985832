// Package pgtest starts a PostgreSQL server for tests from installed binaries. The server has a temporary cluster and
// listens only on a socket in a temporary folder.
//
//	func TestStore(t *testing.T) {
//		server := pgtest.Start(t, pgtest.Options{})
//		dsn := server.DSN(server.Database(t))
//		...
//	}
//
// If PostgreSQL is not installed, [Start] skips the test. A server takes a second or two to start, so many tests can
// share one: that of [Shared], or one that [New] starts and [Server.Close] ends. [StartPooler] starts PgBouncer in
// front of a server, and [StartStandby] a standby, which [Standby.Promote] makes a primary.
//
// Package pgtest installs nothing, needs Unix, and keeps no data: Close deletes the cluster.
package pgtest
