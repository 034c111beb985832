// The adapter for the Go SDK of the Model Context Protocol. It is not a part of go.work, so that what the SDK requires
// never meets what the library requires. .ci/run tests it by itself.
module github.com/seed62658d38/watchdog/watchdogmcp

go 1.25.0

require (
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/seed62658d38/watchdog v0.1.0
	github.com/stretchr/testify v1.10.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/seed62658d38/watchdog => ../
