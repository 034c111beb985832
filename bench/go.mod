module github.com/seed62658d38/watchdog/bench

go 1.25.0

replace (
	github.com/seed62658d38/watchdog => ..
	github.com/seed62658d38/watchdog/store/sqlite => ../store/sqlite
)

require (
	github.com/eapache/go-resiliency v1.7.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/seed62658d38/watchdog v0.0.0-00010101000000-000000000000
)

require (
	github.com/benbjohnson/clock v1.3.5 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
