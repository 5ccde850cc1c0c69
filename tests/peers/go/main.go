// A program on etcd's own client library that contends as its commands say. It stands for every Go program that a
// tenure candidate shares an election or a lock with, and nothing of tenure is in it.
//
// Arguments: election|mutex, endpoints, name, ttl in seconds. TLS as etcdctl has it: ETCDCTL_CACERT, _CERT and _KEY.
// Commands come in on stdin, one a line; events go out on stdout, one JSON object a line, each with the time at which
// it happened on CLOCK_MONOTONIC, which all processes of a machine share. The end of stdin ends the program.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const dialTimeout = 5 * time.Second

type fields map[string]any

var out = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

// say tells of an event that happens now.
func say(event string, more fields) { sayAt(now(), event, more) }

func sayAt(at int64, event string, more fields) {
	line := fields{"event": event, "at_ns": at}
	for name, value := range more {
		line[name] = value
	}
	out.Lock()
	defer out.Unlock()
	if err := out.Encode(line); err != nil {
		os.Exit(1) // Nobody listens any more.
	}
}

// check ends the program with what went wrong, if anything did.
func check(err error) {
	if err != nil {
		say("failed", fields{"text": err.Error()})
		os.Exit(1)
	}
}

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
	check(err)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(endpoints, ","), DialTimeout: dialTimeout, TLS: secure, Logger: zap.NewNop(),
	})
	check(err)
	return client
}

// newSession takes a lease and keeps it alive. A session that ends ends the program: it holds nothing any more.
func newSession(client *clientv3.Client, ttlS int) *concurrency.Session {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttlS))
	check(err)
	go func() {
		<-session.Done()
		say("lost", nil)
		os.Exit(1)
	}()
	return session
}

func main() {
	if len(os.Args) != 5 {
		check(fmt.Errorf("usage: %s election|mutex ENDPOINTS NAME TTL_S", os.Args[0]))
	}
	kind, endpoints, name := os.Args[1], os.Args[2], os.Args[3]
	ttlS, err := strconv.Atoi(os.Args[4])
	check(err)
	session := newSession(connect(endpoints), ttlS)
	peer, err := newPeer(kind, session, name)
	check(err)
	debug.FreeOSMemory() // What the program needs by itself is measured from here.
	say("ready", nil)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		command, argument, _ := strings.Cut(commands.Text(), " ")
		check(obey(peer, command, argument))
	}
}

func obey(peer *peer, command, argument string) error {
	switch command {
	case "campaign":
		return peer.campaign(argument)
	case "resign":
		return peer.resign()
	case "proclaim":
		return peer.proclaim(argument)
	case "observe":
		go peer.observe()
		return nil
	case "time":
		return counted(argument, peer.time)
	case "herd":
		return counted(argument, peer.gather)
	case "pass":
		return peer.pass()
	case "many":
		return counted(argument, peer.many)
	}
	return fmt.Errorf("%q is no command", command)
}

func counted(argument string, act func(count int) error) error {
	count, err := strconv.Atoi(argument)
	if err != nil {
		return err
	}
	return act(count)
}
