package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"tenure.example/peer/lines"
)

const (
	atOnce    = 32 // requests under way while a bench is being set up
	herdTTLS  = 60 // long enough that no lease of a herd ends while the others are still being made
	herdValue = "one of many"
)

// time takes and leaves the office, and says how long each pair took.
func (p *peer) time(count int) error {
	ctx := context.Background()
	return lines.Time(count, func() error {
		if err := p.office.take(ctx, "timed"); err != nil {
			return err
		}
		return p.office.leave(ctx)
	})
}

type win struct {
	at  int64
	who *concurrency.Election
}

// A herd is many candidates of one election in this process. Each has a lease of its own: a key is named by its lease,
// so two candidates of one lease would be one.
type herd struct {
	leader *concurrency.Election
	won    chan win
}

// gather makes a leader and count standbys behind it.
func (p *peer) gather(count int) error {
	ctx := context.Background()
	h := &herd{won: make(chan win, count+1)}
	err := together(count+1, func(int) error {
		candidate := concurrency.NewElection(newSession(p.session.Client(), herdTTLS), p.name)
		go func() {
			lines.Check(candidate.Campaign(ctx, herdValue))
			h.won <- win{lines.Now(), candidate}
		}()
		return nil
	})
	if err != nil {
		return err
	}
	h.leader = (<-h.won).who
	for queued := int64(0); queued <= int64(count); {
		answer, err := p.session.Client().Get(ctx, p.name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		queued = answer.Count
	}
	p.herd = h
	lines.Say("gathered", nil)
	return nil
}

// pass lets the leader of the herd resign, and says how long it took until the next one had won.
func (p *peer) pass(string) error {
	if p.herd == nil {
		return fmt.Errorf("there is no herd yet")
	}
	began := lines.Now()
	if err := p.herd.leader.Resign(context.Background()); err != nil {
		return err
	}
	next := <-p.herd.won
	p.herd.leader = next.who
	lines.Say("passed", lines.Fields{"took_ns": next.at - began})
	return nil
}

// many wins count elections with the one lease of this process and keeps them.
func (p *peer) many(count int) error {
	held := make([]*concurrency.Election, count)
	err := together(count, func(number int) error {
		held[number] = concurrency.NewElection(p.session, fmt.Sprintf("%s/%d", p.name, number))
		return held[number].Campaign(context.Background(), herdValue)
	})
	if err != nil {
		return err
	}
	p.held = held
	debug.FreeOSMemory()
	lines.Say("held", nil)
	return nil
}

// together does count acts, some at once, and returns the first error.
func together(count int, act func(number int) error) error {
	places := make(chan struct{}, atOnce)
	errs := make(chan error, count)
	var all sync.WaitGroup
	for number := range count {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			errs <- act(number)
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
