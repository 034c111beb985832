module github.com/seed62658d38/watchdog/config

go 1.25.0

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/seed62658d38/watchdog v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v4 v4.0.0
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
