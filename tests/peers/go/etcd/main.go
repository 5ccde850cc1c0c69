// A program on etcd's own client library that contends as its commands say. It stands for every Go program that a
// tenure candidate shares an election or a lock with, and nothing of tenure is in it.
//
// Arguments: election|mutex, endpoints, name, ttl in seconds. TLS as etcdctl has it: ETCDCTL_CACERT, _CERT and _KEY.
package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"tenure.example/peer/lines"
)

const dialTimeout = 5 * time.Second

func tlsConfig() (*tls.Config, error) {
	authority := os.Getenv("ETCDCTL_CACERT")
	if authority == "" {
		return nil, nil
	}
	info := transport.TLSInfo{
		TrustedCAFile: authority, CertFile: os.Getenv("ETCDCTL_CERT"), KeyFile: os.Getenv("ETCDCTL_KEY"),
	}
	return info.ClientConfig()
}

func connect(endpoints string) *clientv3.Client {
	secure, err := tlsConfig()
	lines.Check(err)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(endpoints, ","), DialTimeout: dialTimeout, TLS: secure, Logger: zap.NewNop(),
	})
	lines.Check(err)
	return client
}

// newSession takes a lease and keeps it alive. A session that ends ends the program: it holds nothing any more.
func newSession(client *clientv3.Client, ttlS int) *concurrency.Session {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttlS))
	lines.Check(err)
	go func() {
		<-session.Done()
		lines.Lose()
	}()
	return session
}

func main() {
	if len(os.Args) != 5 {
		lines.Check(fmt.Errorf("usage: %s election|mutex ENDPOINTS NAME TTL_S", os.Args[0]))
	}
	kind, endpoints, name := os.Args[1], os.Args[2], os.Args[3]
	ttlS, err := strconv.Atoi(os.Args[4])
	lines.Check(err)
	session := newSession(connect(endpoints), ttlS)
	peer, err := newPeer(kind, session, name)
	lines.Check(err)
	lines.Serve(lines.Acts{
		"campaign": peer.campaign,
		"resign":   peer.resign,
		"proclaim": peer.proclaim,
		"observe":  peer.observe,
		"time":     lines.Counted(peer.time),
		"herd":     lines.Counted(peer.gather),
		"pass":     peer.pass,
		"many":     lines.Counted(peer.many),
	})
}
