// Package pgtest starts a PostgreSQL server of its own for tests, from binaries that are installed: a temporary cluster that listens on a socket in a temporary folder, and nowhere
// else.
//
//	func TestStore(t *testing.T) {
//		server := pgtest.Start(t, pgtest.Options{})
//		dsn := server.DSN(server.Database(t))
//		...
//	}
//
// A test is skipped, saying so, where there is no PostgreSQL. Many tests can share one server, which [New] starts and [Server.Close] ends, because starting one takes a second or two.
// [StartPooler] puts PgBouncer in front of a server.
//
// Package pgtest installs nothing, needs Unix, and keeps no data: a cluster is deleted when it is closed.
package pgtest
