"""Decides how objects other than pods and nodes are read, a file for each sort; leaves following them to `kube`."""
