module github.com/seed62658d38/watchdog/config

go 1.25.0

require (
	github.com/seed62658d38/watchdog v0.1.0
	github.com/stretchr/testify v1.10.0
	go.uber.org/goleak v0.10.0
	go.yaml.in/yaml/v4 v4.0.0
	gotest.tools/v3 v3.5.2
)

require (
	github.com/benbjohnson/clock v1.3.5 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/google/go-cmp v0.5.9 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
