// Package k8s stands in for the one cloud that Consul names by itself.
package k8s

// Provider knows nothing.
type Provider struct{}

// Help says nothing.
func (*Provider) Help() string { return "" }
