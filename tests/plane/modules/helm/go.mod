module kubehenge.dev/plane/helm

go 1.26.0

require sigs.k8s.io/cluster-api-addon-provider-helm v0.6.4
