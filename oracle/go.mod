// A test that drives the root package and a frozen copy of it through the same random histories. Nobody imports this
// module, so that it is no part of go.work or of a release.
module github.com/seed62658d38/watchdog/oracle

go 1.25.0

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/seed62658d38/watchdog v0.1.0
	github.com/seed62658d38/watchdog/oracle/frozen v0.0.0
)

replace (
	github.com/seed62658d38/watchdog => ../
	github.com/seed62658d38/watchdog/oracle/frozen => ./testdata/frozen
)
