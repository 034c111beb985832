// The root package of commit 86341b3, see freeze.sh. It requires nothing of the live one.
module github.com/seed62658d38/watchdog/oracle/frozen

go 1.25.0

require github.com/benbjohnson/clock v1.3.5
